//! The attribute `actor`: turns the methods of an `impl` block into the messages of a typed actor.
//!
//! ```text
//!   impl block ─▶ method.rs: what each function is ─▶ block.rs: the whole actor ─▶ expand.rs: enum, reference, Actor
//! ```
//!
//! Applications use it as `rusm::actor`, where it is documented.

mod block;
mod expand;
mod method;

use proc_macro::TokenStream;
use proc_macro2::TokenStream as TokenStream2;

/// Turns the methods of an `impl` block into the messages of a typed actor; documented at `rusm::actor`.
#[proc_macro_attribute]
pub fn actor(options: TokenStream, item: TokenStream) -> TokenStream {
    let item = item.into();
    match block::parse(options.into(), &item) {
        Ok(actor) => expand::expand(&actor).into(),
        // With the methods themselves: their callers must not fail as well.
        Err(error) => [error.into_compile_error(), block::methods(item)].into_iter().collect::<TokenStream2>().into(),
    }
}
