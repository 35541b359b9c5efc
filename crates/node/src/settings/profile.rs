//! Names of profiles in the settings.

use rusm_wasm::Profiles;

use crate::settings::error::SettingsError;
use crate::settings::raw::{RawSetting, did_you_mean};

/// Returns the name of a profile that exists.
pub(super) fn known_profile(raw: &RawSetting, profiles: &Profiles) -> Result<String, SettingsError> {
    let text = raw.text()?;
    if profiles.find(text).is_ok() {
        return Ok(text.to_owned());
    }
    let known: Vec<&str> = profiles.names().collect();
    let meant = did_you_mean(text, known.iter().copied());
    Err(raw.invalid(&format!("must be one of {}{meant}", known.join(", "))))
}
