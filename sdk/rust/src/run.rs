//! Conversion of a guest's function into a process.

use std::fmt::Display;

/// Return type of the function of a guest.
pub trait Outcome {
    /// Converts the value: `Ok` stands for a normal end.
    ///
    /// # Errors
    /// Text of the exit reason.
    fn into_result(self) -> Result<(), String>;
}

impl Outcome for () {
    fn into_result(self) -> Result<(), String> {
        Ok(())
    }
}

impl<E: Display> Outcome for Result<(), E> {
    fn into_result(self) -> Result<(), String> {
        self.map_err(|error| error.to_string())
    }
}

/// The function of a guest, with the arguments or without.
pub trait Body<Arguments> {
    /// Runs the process from its first instruction to its last.
    ///
    /// # Errors
    /// Text of the exit reason.
    fn run(self, args: &[String]) -> Result<(), String>;
}

impl<F: FnOnce(&[String]) -> O, O: Outcome> Body<(&[String],)> for F {
    fn run(self, args: &[String]) -> Result<(), String> {
        self(args).into_result()
    }
}

impl<F: FnOnce() -> O, O: Outcome> Body<()> for F {
    fn run(self, _: &[String]) -> Result<(), String> {
        self().into_result()
    }
}

/// Runs the body of a guest; called by the code that [`actor!`](crate::actor) generates.
///
/// # Errors
/// Text of the exit reason.
pub fn start<Arguments>(body: impl Body<Arguments>, args: &[String]) -> Result<(), String> {
    // A panic ends the process by a trap, which carries no message: log the message here.
    std::panic::set_hook(Box::new(|info| crate::error!("{info}")));
    body.run(args)
}

/// Makes a function the body of this module's process.
///
/// The function takes the arguments as a `&[String]`, or nothing. It returns nothing, or a `Result<(), E>` whose error
/// becomes the exit reason.
#[macro_export]
macro_rules! actor {
    ($body:path) => {
        const _: () = {
            struct Actor;

            impl $crate::bindings::Guest for Actor {
                fn run(
                    args: ::std::vec::Vec<::std::string::String>,
                ) -> ::std::result::Result<(), ::std::string::String> {
                    $crate::start($body, &args)
                }
            }

    $crate::bindings::export!(Actor with_types_in $crate::bindings);
        };
    };
}
