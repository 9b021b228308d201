//! Doors that this build leaves out, by cargo feature: they are off, and a setting for one is refused.

use super::load::Origin;
use super::setting::{Kind, Setting};

/// A cargo feature that contains one door, or two.
pub(crate) struct DoorFeature {
    feature: &'static str,
    /// As a sentence names it.
    doors: &'static str,
    is_compiled: bool,
    /// The settings of the doors have these names, or begin with one and an underscore.
    prefixes: &'static [&'static str],
}

const FEATURES: [DoorFeature; 4] = [
    DoorFeature {
        feature: "grpc",
        doors: "gRPC door",
        is_compiled: cfg!(feature = "grpc"),
        prefixes: &["grpc"],
    },
    DoorFeature {
        feature: "http",
        doors: "HTTP door",
        is_compiled: cfg!(feature = "http"),
        prefixes: &["http"],
    },
    DoorFeature {
        feature: "resp",
        doors: "RESP door",
        is_compiled: cfg!(feature = "resp"),
        prefixes: &["resp"],
    },
    DoorFeature {
        feature: "zmq",
        doors: "ZeroMQ doors",
        is_compiled: cfg!(feature = "zmq"),
        prefixes: &["mdp", "pingpong", "zmq"],
    },
];

/// The feature that this build lacks for the setting.
pub(crate) fn absent(key: &str) -> Option<&'static DoorFeature> {
    FEATURES.iter().find(|feature| !feature.is_compiled && feature.has(key))
}

/// The default in this build.
pub(crate) fn default_text(setting: &Setting) -> &'static str {
    if is_address(setting) && absent(setting.key).is_some() { "off" } else { setting.default }
}

/// Why the setting cannot be used in this build. `off` can: the door is.
pub(crate) fn complaint(setting: &Setting, text: &str, origin: &Origin) -> Option<String> {
    let is_off = is_address(setting) && text == "off";
    let feature = absent(setting.key).filter(|_| !is_off && *origin != Origin::Default)?;
    Some(feature.complaint(setting.key))
}

fn is_address(setting: &Setting) -> bool {
    matches!(setting.kind, Kind::Address | Kind::TwoAddresses)
}

impl DoorFeature {
    fn has(&self, key: &str) -> bool {
        self.prefixes.iter().any(|prefix| {
            key.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
        })
    }

    fn complaint(&self, key: &str) -> String {
        let DoorFeature { feature, doors, .. } = self;
        format!(
            "{key}: this build of tenure does not contain the {doors}; remove the setting, or use a build with the \
             cargo feature `{feature}`"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::settings::SETTINGS;

    #[test]
    fn the_settings_of_a_door_belong_to_its_feature() {
        let feature = |key: &str| {
            assert!(SETTINGS.iter().any(|setting| setting.key == key), "{key}");
            FEATURES.iter().find(|feature| feature.has(key)).map(|feature| feature.feature)
        };
        assert_eq!(feature("grpc_tls_cert"), Some("grpc"));
        assert_eq!(feature("http_hosts"), Some("http"));
        assert_eq!(feature("resp"), Some("resp"));
        assert_eq!(feature("mdp_heartbeat"), Some("zmq"));
        assert_eq!(feature("pingpong"), Some("zmq"));
        assert_eq!(feature("zmq_ping"), Some("zmq"));
        assert_eq!(feature("native"), None);
        assert_eq!(feature("restart_grace"), None);
    }

    #[test]
    fn a_setting_for_an_absent_door_is_refused_by_the_name_of_the_feature() {
        let said = FEATURES[2].complaint("resp_heartbeat");
        assert_eq!(
            said,
            "resp_heartbeat: this build of tenure does not contain the RESP door; remove the setting, or use a build \
             with the cargo feature `resp`"
        );
    }

    #[test]
    fn what_is_compiled_in_keeps_its_default() {
        for setting in SETTINGS {
            let is_off = default_text(setting) != setting.default;
            assert_eq!(is_off, is_address(setting) && absent(setting.key).is_some(), "{}", setting.key);
        }
    }
}
