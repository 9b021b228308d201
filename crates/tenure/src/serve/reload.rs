//! SIGHUP: reads the configuration again, applies what can be applied, and says what needs a restart.

use tenure_hub::HubHandle;
use tenure_hub::words::Name;
use tenure_outbound::hooks::HookSettings;

use super::logging::{self, Filter};
use crate::config::Config;
use crate::config::flags::Flags;
use crate::config::load::Loaded;
use crate::config::settings::SETTINGS;
use crate::verbs::config::read;

pub(crate) struct Reload {
    flags: Flags,
    loaded: Loaded,
    config: Config,
    filter: Filter,
}

impl Reload {
    pub(crate) fn new(flags: Flags, loaded: Loaded, config: Config, filter: Filter) -> Reload {
        Reload { flags, loaded, config, filter }
    }

    /// The configuration that was read last. Settings in it that need a restart do not hold yet.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// The configuration of the start with what has changed since and needs no restart.
    pub(crate) fn applied_to(&self, start: &Config) -> Config {
        let Config { engine, backup_dir, access, hooks, log, .. } = self.config.clone();
        Config { engine, backup_dir, access, hooks, log, ..start.clone() }
    }

    /// Returns the hooks that run from now on, if there are or were any.
    pub(crate) fn run(&mut self, hub: &HubHandle) -> Option<Vec<HookSettings>> {
        let had_hooks = !self.config.hooks.is_empty();
        let changes = match self.read_again(hub.wants_keys()) {
            Ok(changes) => changes,
            Err(problem) => {
                if let Some(audit) = hub.audit() {
                    audit.not_reloaded(&problem);
                }
                return None;
            }
        };
        hub.configure(self.config.engine.clone());
        hub.set_backup_dir(self.config.backup_dir.clone());
        hub.set_keys(self.config.access.keys());
        if let Some(audit) = hub.audit() {
            audit.reloaded(&changes.settings, &changes.keys_added, &changes.keys_removed);
        }
        tracing::info!(keys = self.loaded.access.count(), "the configuration was read again");
        // They are always replaced: a secret or a certificate may have changed in its file, and each goes on where it was.
        let has_hooks = had_hooks || !self.config.hooks.is_empty();
        has_hooks.then(|| self.config.hooks.clone())
    }

    /// A standby keeps what it reads for its next leadership. What it logs changes at once.
    pub(crate) fn run_without_hub(&mut self) {
        let wants_keys = self.config.access.count() > 0;
        // If it fails, the log has the problem, and nothing has changed.
        if self.read_again(wants_keys).is_ok() {
            tracing::info!(keys = self.loaded.access.count(), "the configuration was read again");
        }
    }

    /// Reads the configuration again, or says why it stays as it is.
    fn read_again(&mut self, wants_keys: bool) -> Result<Changes, String> {
        let loaded = read(&self.flags).map_err(|failure| {
            tracing::error!(problem = %failure, "reloading failed; the broker keeps its configuration");
            failure.to_string()
        })?;
        // Doors that untrusted peers can reach must not lose their authentication.
        if loaded.access.keys().is_empty() && wants_keys {
            tracing::error!(
                "the new configuration removes all keys; this needs a restart, and the old keys stay in force"
            );
            return Err("the new configuration has no keys".to_owned());
        }
        let mut settings = Vec::new();
        for setting in SETTINGS {
            let (old, new) = (self.loaded.text(setting.key), loaded.text(setting.key));
            if old == new {
                continue;
            }
            let (old, new) = (self.loaded.value_text(setting.key), loaded.value_text(setting.key));
            if setting.reloads || setting.key == "log" {
                tracing::info!(setting = setting.key, old, new, "setting changed");
                settings.push(setting.key);
            } else {
                tracing::warn!(
                    setting = setting.key,
                    old,
                    new,
                    "setting changed in the file, but it needs a restart"
                );
            }
        }
        let changes = Changes {
            settings,
            keys_added: loaded.access.names_not_in(&self.loaded.access),
            keys_removed: self.loaded.access.names_not_in(&loaded.access),
        };
        // The table of ids was hashed with the old seed.
        self.config = Config::build(&loaded, self.config.store.seed);
        let _ = self.filter.reload(logging::parse(&self.config.log));
        self.loaded = loaded;
        Ok(changes)
    }
}

/// The changes of a reload.
struct Changes {
    settings: Vec<&'static str>,
    keys_added: Vec<Name>,
    keys_removed: Vec<Name>,
}
