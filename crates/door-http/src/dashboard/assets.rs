//! The files that pages use: styles, scripts and the icon, all part of the binary.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::LazyLock;

use http::header::{CACHE_CONTROL, HeaderValue};

use crate::call::HttpCall;
use crate::problem::ProblemDetails;
use crate::reply::{self, HttpResult};

const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! files {
    ($($name:literal $media_type:expr;)*) => {
        &[$(($name, $media_type, include_str!(concat!("../../assets/", $name)))),*]
    };
}

const FILES: &[(&str, &str, &str)] = files! {
    "style.css" "text/css; charset=utf-8";
    "icon.svg" "image/svg+xml";
    "app.js" SCRIPT;
    "acts.js" SCRIPT;
    "chart.js" SCRIPT;
    "clock.js" SCRIPT;
    "events.js" SCRIPT;
    "keyboard.js" SCRIPT;
    "live.js" SCRIPT;
    "namespace.js" SCRIPT;
    "notices.js" SCRIPT;
    "output.js" SCRIPT;
    "rates.js" SCRIPT;
    "refresh.js" SCRIPT;
    "selection.js" SCRIPT;
    "stream.js" SCRIPT;
};

/// A part of the path that changes with any of the files, so that browsers may keep them.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let mut hasher = DefaultHasher::new();
    FILES.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
});

/// Where a page finds a file.
pub(super) fn path(file: &str) -> String {
    debug_assert!(FILES.iter().any(|(name, ..)| *name == file), "{file} is not in the list");
    format!("/assets/{}/{file}", *VERSION)
}

pub(super) async fn file(call: HttpCall) -> HttpResult {
    let (version, file) = (call.path.get("version")?, call.path.get("file")?);
    let found = FILES.iter().find(|(name, ..)| *name == file && version == *VERSION);
    let Some((_, media_type, text)) = found else {
        return Err(ProblemDetails::not_found(call.head.uri.path()));
    };
    let mut response = reply::text(*text, HeaderValue::from_static(media_type));
    let forever = HeaderValue::from_static("public, max-age=31536000, immutable");
    response.headers_mut().insert(CACHE_CONTROL, forever);
    Ok(response)
}
