//! The settings of the listener for the older message dialect.

use tenure_door_msgpack::xmessage::XmessageSettings;

use super::load::Loaded;
use super::value;

const CHECKED: &str = "checked when loaded";

pub(crate) fn xmessage(loaded: &Loaded) -> XmessageSettings {
    let names = |key: &str| {
        let names = value::names(loaded.text(key)).expect(CHECKED);
        names.into_iter().map(Into::into).collect()
    };
    let slots = value::count(loaded.text("xmessage_slots")).expect(CHECKED);
    XmessageSettings {
        slots: slots.try_into().unwrap_or(u32::MAX),
        task_types: names("xmessage_task_types"),
        priority: value::priority(loaded.text("xmessage_priority")).expect(CHECKED),
        tags: names("xmessage_tags"),
        on_lost: value::on_lost(loaded.text("xmessage_on_lost")).expect(CHECKED),
    }
}
