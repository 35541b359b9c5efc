//! The whole block with the options of the attribute.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{Error, GenericParam, Generics, ImplItem, ItemImpl, Path, Result, Token, Type};

use crate::method::{Function, Info, Init, Method, Terminate};

/// An actor.
pub(crate) struct Block {
    pub(crate) item: ItemImpl,
    pub(crate) actor: Type,
    pub(crate) generics: Generics,
    /// Path of the library.
    pub(crate) library: TokenStream,
    pub(crate) message: Ident,
    pub(crate) reference: Ident,
    pub(crate) unmatched: Option<Ident>,
    pub(crate) init: Option<Init>,
    pub(crate) terminate: Option<Terminate>,
    pub(crate) infos: Vec<Info>,
    pub(crate) methods: Vec<Method>,
}

/// Options of the attribute.
#[derive(Default)]
struct Options {
    library: Option<Path>,
    message: Option<Ident>,
    reference: Option<Ident>,
    unmatched: Option<Ident>,
}

const OPTIONS: &str =
    "the options are `message = Name`, `reference = Name`, `unmatched = warn|drop|crash` and `crate = path`";

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut options = Self::default();
        while !input.is_empty() {
            if input.peek(Token![crate]) {
                input.parse::<Token![crate]>()?;
                input.parse::<Token![=]>()?;
                options.library = Some(input.parse()?);
            } else {
                let name: Ident = input.parse().map_err(|error| Error::new(error.span(), OPTIONS))?;
                input.parse::<Token![=]>().map_err(|error| Error::new(error.span(), OPTIONS))?;
                let value = input.parse()?;
                match name.to_string().as_str() {
                    "message" => options.message = Some(value),
                    "reference" => options.reference = Some(value),
                    "unmatched" => options.unmatched = Some(policy(&value)?),
                    _ => return Err(Error::new(name.span(), OPTIONS)),
                }
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(options)
    }
}

fn policy(name: &Ident) -> Result<Ident> {
    let variant = match name.to_string().as_str() {
        "warn" => "Warn",
        "drop" => "Drop",
        "crash" => "Crash",
        _ => return Err(Error::new(name.span(), OPTIONS)),
    };
    Ok(format_ident!("{variant}", span = name.span()))
}

/// Returns the block without the attributes that only [`parse`] understands; nothing if it is no block.
pub(crate) fn methods(item: TokenStream) -> TokenStream {
    let Ok(mut item) = syn::parse2::<ItemImpl>(item) else { return TokenStream::new() };
    for function in &mut item.items {
        if let ImplItem::Fn(function) = function {
            function.attrs.retain(|attribute| !["info", "skip"].iter().any(|name| attribute.path().is_ident(name)));
        }
    }
    item.to_token_stream()
}

/// Reads the attribute and the block.
pub(crate) fn parse(options: TokenStream, item: &TokenStream) -> Result<Block> {
    let options: Options = syn::parse2(options)?;
    let mut item: ItemImpl = syn::parse2(item.clone())?;
    if item.trait_.is_some() {
        return Err(Error::new(item.self_ty.span(), "`actor` is for an `impl` block of a type, not of a trait"));
    }
    if let Some(lifetime) = item.generics.params.iter().find(|param| matches!(param, GenericParam::Lifetime(_))) {
        return Err(Error::new(lifetime.span(), "an actor owns its state: it cannot have a lifetime"));
    }
    let actor = (*item.self_ty).clone();
    let name = match &actor {
        Type::Path(path) => path.path.segments.last().map(|last| last.ident.clone()),
        _ => None,
    };
    let name = name.ok_or_else(|| Error::new(actor.span(), "`actor` is for the `impl` block of a type with a name"))?;
    let mut block = Block {
        generics: item.generics.clone(),
        library: options.library.map_or_else(|| quote!(::rusm), |path| quote!(#path)),
        message: options.message.unwrap_or_else(|| format_ident!("{name}Message")),
        reference: options.reference.unwrap_or_else(|| format_ident!("{name}Ref")),
        unmatched: options.unmatched,
        init: None,
        terminate: None,
        infos: Vec::new(),
        methods: Vec::new(),
        actor: actor.clone(),
        item: item.clone(),
    };
    for function in item.items.iter_mut().filter_map(|item| match item {
        ImplItem::Fn(function) => Some(function),
        _ => None,
    }) {
        match Function::parse(function, &actor)? {
            Function::Init(init) => block.init = Some(init),
            Function::Terminate(terminate) => block.terminate = Some(terminate),
            Function::Info(info) => {
                let kind = info.message.to_token_stream().to_string();
                let is_same =
                    |other: &&Info| other.message.to_token_stream().to_string() == kind && other.cfgs.is_empty();
                if info.cfgs.is_empty() && block.infos.iter().any(|other| is_same(&other)) {
                    let what = format!("another `#[info]` method handles `{kind}`: this one would never be called");
                    return Err(Error::new(info.name.span(), what));
                }
                block.infos.push(*info);
            }
            Function::Message(method) => block.methods.push(*method),
            Function::Other => {}
        }
    }
    block.item = item;
    Ok(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_could_not_do_what_they_look_like_are_refused() {
        let refused = |functions: TokenStream| match parse(TokenStream::new(), &quote!(impl Till { #functions })) {
            Ok(_) => panic!("it is accepted"),
            Err(error) => error.to_string(),
        };

        assert!(
            refused(quote!(
                fn terminate(&mut self) {}
            ))
            .starts_with("`terminate` takes `self`")
        );
        let twice = quote! { #[info] fn one(&mut self, _: Down) {} #[info] fn two(&mut self, _: Down) {} };
        assert_eq!(refused(twice), "another `#[info]` method handles `Down`: this one would never be called");
        let hidden = quote!(
            fn pay(&mut self) -> Result<Flow, String> {
                Ok(Flow::Continue)
            }
        );
        assert!(refused(hidden).starts_with("a `Flow` in another type would be a reply"));
        let wrapped = quote!(
            fn pay(&mut self) -> Option<Flow> {
                None
            }
        );
        assert!(refused(wrapped).starts_with("a `Flow` in another type would be a reply"));
        let ignored = quote!(
            #[info]
            fn down(&mut self, _: Down) -> Result<Flow, String> {
                Ok(Flow::Continue)
            }
        );
        assert_eq!(refused(ignored), "an `#[info]` method returns nothing or a `Flow`");
        let late = quote!(
            fn init(&mut self) {}
        );
        assert!(refused(late).starts_with("`init` takes no `self`"));
    }
}
