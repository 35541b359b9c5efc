//! Turns a request into a run that can be started.

use std::collections::BTreeMap;

use rusm_console::HostError;
use rusm_protocol::ErrorCode;
use thiserror::Error;

use crate::context::RunSettings;
use crate::defaults;
use crate::measure::schedule::{Rate, RateError};
use crate::parameter::{ParameterError, Params};
use crate::run::profile::Profile;
use crate::scenario::Scenario;
use rusm_text::suggestion;

/// A request for a run, unchecked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// The scenario's id.
    pub scenario: String,
    /// The resource profile's id; `None` is balanced.
    pub profile: Option<String>,
    /// Parameters by name; those not listed have their defaults.
    pub params: BTreeMap<String, String>,
    /// Operations per second that an open loop offers; `None` is a closed loop.
    pub rate_per_sec: Option<f64>,
    /// Seed of all random numbers; `None` is 1.
    pub seed: Option<u64>,
}

/// Error returned when a request is not valid.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum RequestError {
    /// The scenario does not exist. Use an id of the catalogue.
    #[error("unknown scenario {name:?}: {suggestion}")]
    UnknownScenario {
        /// The id given.
        name: String,
        /// The nearest known id, or all of them.
        suggestion: String,
    },
    /// The profile does not exist. Use light, balanced or max.
    #[error("unknown profile {name:?}: {suggestion}")]
    UnknownProfile {
        /// The id given.
        name: String,
        /// The nearest known id, or all of them.
        suggestion: String,
    },
    /// A parameter is not valid. Use a parameter of the card, in its range.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// The scenario compares cases in turn and cannot be offered a rate. Leave the rate out.
    #[error("{scenario} runs cases in turn, each at its own rate: leave the offered rate out")]
    NoRate {
        /// Id of the scenario.
        scenario: &'static str,
    },
    /// The rate is out of range.
    #[error(transparent)]
    Rate(#[from] RateError),
}

impl From<RequestError> for HostError {
    fn from(error: RequestError) -> Self {
        let code = match &error {
            RequestError::UnknownScenario { .. }
            | RequestError::UnknownProfile { .. }
            | RequestError::Parameter(ParameterError::Unknown { .. }) => ErrorCode::Unknown,
            RequestError::Parameter(ParameterError::Form { .. }) => ErrorCode::Malformed,
            RequestError::Parameter(ParameterError::OutOfRange { .. } | ParameterError::Together(_))
            | RequestError::Rate(_)
            | RequestError::NoRate { .. } => ErrorCode::OutOfRange,
        };
        Self { code, message: error.to_string() }
    }
}

/// A run that can be started: all of its fields are valid.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The scenario to run.
    pub scenario: &'static dyn Scenario,
    /// Resource profile: the part of the machine that the run may use.
    pub profile: Profile,
    /// Checked parameters of the scenario.
    pub params: Params,
    /// Rate of an open loop; `None` is a closed loop.
    pub rate: Option<Rate>,
    /// Seed of all random numbers.
    pub seed: u64,
}

impl Plan {
    /// Checks a request for a scenario.
    ///
    /// # Errors
    /// [`RequestError`] for the first field that is not valid.
    pub(crate) fn check(scenario: &'static dyn Scenario, request: &Request) -> Result<Self, RequestError> {
        let card = scenario.card();
        if scenario.takes_turns() && request.rate_per_sec.is_some() {
            return Err(RequestError::NoRate { scenario: card.id });
        }
        let mut given = request.params.clone();
        scenario.fill(&mut given);
        let params = Params::check(card.id, card.parameters, &given)?;
        scenario.check(&params)?;
        Ok(Self {
            scenario,
            profile: request.profile.as_deref().map_or(Ok(defaults::PROFILE), profile)?,
            params,
            rate: request.rate_per_sec.map(Rate::from_per_sec).transpose()?,
            seed: request.seed.unwrap_or(defaults::SEED),
        })
    }

    /// Returns the settings that the scenario sees.
    pub(crate) fn settings(&self) -> RunSettings {
        RunSettings {
            profile: self.profile,
            params: self.params.clone(),
            rate: self.rate,
            seed: self.seed,
            ops_per_timed: self.scenario.card().ops_per_timed,
        }
    }
}

/// Returns the profile with an id.
pub(crate) fn profile(id: &str) -> Result<Profile, RequestError> {
    Profile::of_id(id).ok_or_else(|| RequestError::UnknownProfile {
        name: id.to_owned(),
        suggestion: suggestion(id, Profile::ALL.map(Profile::id)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(scenario: &str) -> Request {
        Request { scenario: scenario.to_owned(), ..Request::default() }
    }

    #[test]
    fn a_bare_request_is_a_closed_loop_of_the_balanced_profile() {
        let plan = Plan::of(&request("ping-pong")).unwrap();

        assert_eq!((plan.profile, plan.rate, plan.seed), (Profile::Balanced, None, 1));
    }

    #[test]
    fn refusals_carry_the_code_that_observers_know() {
        let code = |request: Request| HostError::from(Plan::of(&request).unwrap_err()).code;
        let with = |name: &str, value: &str| Request {
            params: [(name.to_owned(), value.to_owned())].into(),
            ..request("ping-pong")
        };

        assert_eq!(code(request("ping")), ErrorCode::Unknown);
        assert_eq!(code(with("pear", "1")), ErrorCode::Unknown);
        assert_eq!(code(with("pairs", "0")), ErrorCode::OutOfRange);
        assert_eq!(code(Request { profile: Some("huge".to_owned()), ..request("ping-pong") }), ErrorCode::Unknown);
        assert_eq!(code(Request { rate_per_sec: Some(-1.0), ..request("ping-pong") }), ErrorCode::OutOfRange);
    }

    #[test]
    fn an_unknown_profile_is_answered_with_the_nearest() {
        assert_eq!(
            profile("balance").unwrap_err().to_string(),
            r#"unknown profile "balance": did you mean "balanced"?"#
        );
    }
}
