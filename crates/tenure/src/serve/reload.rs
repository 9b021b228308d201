//! SIGHUP: reads the configuration again, applies what can be applied, and says what needs a restart.

use tenure_hub::HubHandle;
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

    /// Returns the hooks that run from now on, if there are or were any.
    pub(crate) fn run(&mut self, hub: &HubHandle) -> Option<Vec<HookSettings>> {
        let loaded = match read(&self.flags) {
            Ok(loaded) => loaded,
            Err(failure) => {
                tracing::error!(problem = %failure, "reloading failed, the broker goes on as before");
                if let Some(audit) = hub.audit() {
                    audit.not_reloaded(&failure.to_string());
                }
                return None;
            }
        };
        let keys = loaded.access.keys();
        // Doors that untrusted peers can reach must not lose their authentication.
        if keys.is_empty() && hub.wants_keys() {
            tracing::error!("the new configuration has no keys: that needs a restart, the old keys stay");
            if let Some(audit) = hub.audit() {
                audit.not_reloaded("the new configuration has no keys");
            }
            return None;
        }
        let mut changed = Vec::new();
        for setting in SETTINGS {
            let (old, new) = (self.loaded.text(setting.key), loaded.text(setting.key));
            if old == new {
                continue;
            }
            if setting.reloads || setting.key == "log" {
                tracing::info!(setting = setting.key, old, new, "setting changed");
                changed.push(setting.key);
            } else {
                tracing::warn!(
                    setting = setting.key,
                    old,
                    new,
                    "setting changed in the file, but it needs a restart"
                );
            }
        }
        // The table of ids was hashed with the old seed.
        let config = Config::build(&loaded, self.config.store.seed);
        hub.configure(config.engine.clone());
        hub.set_backup_dir(config.backup_dir.clone());
        hub.set_keys(keys);
        if let Some(audit) = hub.audit() {
            let (added, removed) = (
                loaded.access.names_not_in(&self.loaded.access),
                self.loaded.access.names_not_in(&loaded.access),
            );
            audit.reloaded(&changed, &added, &removed);
        }
        let _ = self.filter.reload(logging::parse(&config.log));
        tracing::info!(keys = loaded.access.count(), "the configuration was read again");
        // They are always replaced: a secret or a certificate may have changed in its file, and each goes on where it was.
        let has_hooks = !config.hooks.is_empty() || !self.config.hooks.is_empty();
        let hooks = has_hooks.then(|| config.hooks.clone());
        self.config = config;
        self.loaded = loaded;
        hooks
    }
}
