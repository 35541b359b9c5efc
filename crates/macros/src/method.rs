//! One function of the block: a message, a callback, or a function that is left alone.

use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Error, FnArg, ImplItemFn, Pat, Receiver, Result, ReturnType, Type, Visibility};

/// The role of a function of the block.
pub(crate) enum Function {
    Init(Init),
    Terminate(Terminate),
    Info(Box<Info>),
    Message(Box<Method>),
    /// Left alone.
    Other,
}

/// The function that creates the state.
pub(crate) struct Init {
    pub(crate) inputs: Vec<Input>,
    pub(crate) is_async: bool,
    pub(crate) is_fallible: bool,
}

/// The function that cleans up.
pub(crate) struct Terminate {
    pub(crate) inputs: Vec<Input>,
    pub(crate) is_async: bool,
}

/// A method that handles a message of another type.
pub(crate) struct Info {
    pub(crate) name: Ident,
    pub(crate) inputs: Vec<Input>,
    pub(crate) message: Type,
    pub(crate) is_async: bool,
    pub(crate) returns_flow: bool,
    pub(crate) cfgs: Vec<Attribute>,
}

/// A method that is a message.
pub(crate) struct Method {
    pub(crate) name: Ident,
    pub(crate) variant: Ident,
    pub(crate) visibility: Visibility,
    pub(crate) docs: Vec<Attribute>,
    pub(crate) cfgs: Vec<Attribute>,
    pub(crate) inputs: Vec<Input>,
    pub(crate) reply: Answer,
    pub(crate) is_async: bool,
    pub(crate) returns_flow: bool,
}

/// How a method answers.
pub(crate) enum Answer {
    /// Not at all: the message is sent.
    None,
    /// With the value that it returns.
    Returned(TokenStream),
    /// Through a `ReplyTo` that it gets.
    Later(TokenStream),
}

/// A parameter.
pub(crate) enum Input {
    Context,
    Reason,
    Reply,
    /// A `String` or a `&str`: callers may give anything that becomes a `String`.
    Text {
        name: Ident,
        is_borrowed: bool,
    },
    Value {
        name: Ident,
        kind: TokenStream,
    },
}

impl Input {
    /// Returns the name and the type of the value in the message; `None` if the message lacks it.
    pub(crate) fn field(&self) -> Option<(&Ident, TokenStream)> {
        match self {
            Self::Text { name, .. } => Some((name, quote!(::std::string::String))),
            Self::Value { name, kind } => Some((name, kind.clone())),
            Self::Context | Self::Reason | Self::Reply => None,
        }
    }
}

impl Function {
    /// Reads a function, and removes the attributes that are for this macro.
    pub(crate) fn parse(function: &mut ImplItemFn, actor: &Type) -> Result<Self> {
        let skipped = take(&mut function.attrs, "skip");
        let info = take(&mut function.attrs, "info");
        if skipped {
            return Ok(Self::Other);
        }
        let name = function.sig.ident.clone();
        let Some(receiver) = function.sig.receiver().cloned() else {
            return if name == "init" { Init::parse(function, actor).map(Self::Init) } else { Ok(Self::Other) };
        };
        if !is_borrowed(&receiver) {
            if name == "terminate" {
                return Terminate::parse(function, actor).map(Self::Terminate);
            }
            return Err(Error::new(
                receiver.span(),
                "a message takes `&self` or `&mut self`; mark other functions with `#[skip]`",
            ));
        }
        if name == "terminate" || name == "init" {
            let takes = if name == "init" {
                "takes no `self`: it creates the actor"
            } else {
                "takes `self`: it is called once, at the end"
            };
            let what = format!("`{name}` {takes}; mark other functions with `#[skip]`");
            return Err(Error::new(receiver.span(), what));
        }
        if let Some(generic) = function.sig.generics.params.first() {
            return Err(Error::new(generic.span(), "a message cannot be generic; mark other functions with `#[skip]`"));
        }
        if info {
            Info::parse(function, actor).map(Self::Info)
        } else {
            Method::parse(function, actor).map(Self::Message)
        }
    }
}

fn is_borrowed(receiver: &Receiver) -> bool {
    receiver.to_token_stream().into_iter().next().is_some_and(|first| first.to_string() == "&")
}

impl Init {
    fn parse(function: &ImplItemFn, actor: &Type) -> Result<Self> {
        let is_fallible = match &function.sig.output {
            ReturnType::Default => {
                return Err(Error::new(function.sig.span(), "`init` returns `Self` or a `Result<Self, _>`"));
            }
            ReturnType::Type(_, kind) => is_named(kind, "Result"),
        };
        Ok(Self { inputs: inputs(function, actor)?, is_async: function.sig.asyncness.is_some(), is_fallible })
    }
}

impl Terminate {
    fn parse(function: &ImplItemFn, actor: &Type) -> Result<Self> {
        let inputs = inputs(function, actor)?;
        if inputs.iter().any(|input| !matches!(input, Input::Context | Input::Reason)) {
            return Err(Error::new(function.sig.span(), "`terminate` takes a `&Context` and a `&ExitReason` at most"));
        }
        Ok(Self { inputs, is_async: function.sig.asyncness.is_some() })
    }
}

impl Info {
    fn parse(function: &ImplItemFn, actor: &Type) -> Result<Box<Self>> {
        let inputs = inputs(function, actor)?;
        let mut messages = function.sig.inputs.iter().filter_map(|input| match input {
            FnArg::Typed(typed) if !is_context(&typed.ty) => Some((*typed.ty).clone()),
            _ => None,
        });
        let (Some(message), None) = (messages.next(), messages.next()) else {
            return Err(Error::new(function.sig.span(), "an `#[info]` method takes one message"));
        };
        if let ReturnType::Type(_, kind) = &function.sig.output
            && !returns_flow(&function.sig.output)
            && !matches!(&**kind, Type::Tuple(unit) if unit.elems.is_empty())
        {
            return Err(Error::new(kind.span(), "an `#[info]` method returns nothing or a `Flow`"));
        }
        Ok(Box::new(Self {
            name: function.sig.ident.clone(),
            inputs,
            message,
            is_async: function.sig.asyncness.is_some(),
            returns_flow: returns_flow(&function.sig.output),
            cfgs: of_kind(&function.attrs, "cfg"),
        }))
    }
}

impl Method {
    fn parse(function: &ImplItemFn, actor: &Type) -> Result<Box<Self>> {
        let inputs = inputs(function, actor)?;
        let later = function.sig.inputs.iter().find_map(|input| match input {
            FnArg::Typed(typed) => reply_of(&typed.ty),
            FnArg::Receiver(_) => None,
        });
        let returns_flow = returns_flow(&function.sig.output);
        let reply = match (&function.sig.output, later) {
            (ReturnType::Default, None) => Answer::None,
            (ReturnType::Type(..), None) if returns_flow => Answer::None,
            (ReturnType::Type(_, kind), None) => {
                if names_flow(kind.to_token_stream()) {
                    let what =
                        "a `Flow` in another type would be a reply: return `Flow`, and `Flow::Stop` for an error";
                    return Err(Error::new(kind.span(), what));
                }
                if let Some(borrow) = borrow(kind.to_token_stream()) {
                    let what = "a reply cannot borrow from the actor: return an owned value, such as a `String`";
                    return Err(Error::new(borrow, what));
                }
                Answer::Returned(without_self(kind.to_token_stream(), actor))
            }
            (ReturnType::Type(_, kind), Some(_)) if !returns_flow => {
                return Err(Error::new(kind.span(), "a method with a `ReplyTo` returns nothing or a `Flow`"));
            }
            (_, Some(kind)) => Answer::Later(without_self(kind, actor)),
        };
        let name = function.sig.ident.clone();
        Ok(Box::new(Self {
            variant: variant(&name),
            name,
            visibility: function.vis.clone(),
            docs: of_kind(&function.attrs, "doc"),
            cfgs: of_kind(&function.attrs, "cfg"),
            inputs,
            reply,
            is_async: function.sig.asyncness.is_some(),
            returns_flow,
        }))
    }
}

/// Returns the place of a reference in a type that is not `'static`.
fn borrow(kind: TokenStream) -> Option<Span> {
    let mut tokens = kind.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            // The references in the type of a function are not part of the value.
            TokenTree::Ident(name) if ["fn", "Fn", "FnMut", "FnOnce"].iter().any(|function| name == function) => {
                return None;
            }
            TokenTree::Group(group) => {
                if let Some(found) = borrow(group.stream()) {
                    return Some(found);
                }
            }
            TokenTree::Punct(sign) if sign.as_char() == '&' => {
                let is_lifetime = matches!(tokens.peek(), Some(TokenTree::Punct(sign)) if sign.as_char() == '\'');
                let lifetime = if is_lifetime { tokens.nth(1) } else { None };
                if lifetime.is_none_or(|lifetime| lifetime.to_string() != "static") {
                    return Some(sign.span());
                }
            }
            _ => {}
        }
    }
    None
}

/// Removes an attribute without arguments; returns true if it was there.
fn take(attributes: &mut Vec<Attribute>, name: &str) -> bool {
    let before = attributes.len();
    attributes.retain(|attribute| !attribute.path().is_ident(name));
    attributes.len() < before
}

fn of_kind(attributes: &[Attribute], name: &str) -> Vec<Attribute> {
    attributes.iter().filter(|attribute| attribute.path().is_ident(name)).cloned().collect()
}

/// `put_all` becomes `PutAll`.
fn variant(name: &Ident) -> Ident {
    let mut text = String::new();
    for word in name.unraw().to_string().split('_') {
        let mut letters = word.chars();
        text.extend(letters.next().into_iter().flat_map(char::to_uppercase));
        text.push_str(letters.as_str());
    }
    format_ident!("{text}", span = name.span())
}

fn inputs(function: &ImplItemFn, actor: &Type) -> Result<Vec<Input>> {
    let typed = function.sig.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(typed) => Some(typed),
        FnArg::Receiver(_) => None,
    });
    typed
        .enumerate()
        .map(|(position, typed)| {
            let kind = &*typed.ty;
            if is_context(kind) {
                return Ok(Input::Context);
            }
            if reply_of(kind).is_some() {
                return Ok(Input::Reply);
            }
            let name = match &*typed.pat {
                Pat::Ident(pattern) => pattern.ident.clone(),
                // A pattern may take the value apart; the field still needs a name.
                pattern => format_ident!("value{position}", span = pattern.span()),
            };
            match kind {
                Type::Reference(reference) if is_named(&reference.elem, "ExitReason") => Ok(Input::Reason),
                Type::Reference(reference) if is_named(&reference.elem, "str") => {
                    Ok(Input::Text { name, is_borrowed: true })
                }
                Type::Reference(reference) => {
                    Err(Error::new(reference.span(), "a message owns its values: take them without `&`"))
                }
                Type::ImplTrait(kind) => Err(Error::new(kind.span(), "a message has values of one type")),
                kind if is_ident(kind, "String") => Ok(Input::Text { name, is_borrowed: false }),
                kind => Ok(Input::Value { name, kind: without_self(kind.to_token_stream(), actor) }),
            }
        })
        .collect()
}

fn is_context(kind: &Type) -> bool {
    matches!(kind, Type::Reference(reference) if is_named(&reference.elem, "Context"))
}

/// Returns true if the last part of the path of a type is `name`.
fn is_named(kind: &Type, name: &str) -> bool {
    matches!(kind, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == name))
}

fn is_ident(kind: &Type, name: &str) -> bool {
    matches!(kind, Type::Path(path) if path.path.is_ident(name))
}

fn returns_flow(output: &ReturnType) -> bool {
    matches!(output, ReturnType::Type(_, kind) if is_named(kind, "Flow"))
}

/// Returns true if a type contains `Flow`.
fn names_flow(kind: TokenStream) -> bool {
    kind.into_iter().any(|token| match token {
        TokenTree::Ident(name) => name == "Flow",
        TokenTree::Group(group) => names_flow(group.stream()),
        _ => false,
    })
}

/// Returns the `R` of a `ReplyTo<R>`.
fn reply_of(kind: &Type) -> Option<TokenStream> {
    let Type::Path(path) = kind else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == "ReplyTo")?;
    match &last.arguments {
        syn::PathArguments::AngleBracketed(arguments) => Some(arguments.args.to_token_stream()),
        _ => None,
    }
}

/// Replaces `Self`, which has another meaning in the message type.
pub(crate) fn without_self(tokens: TokenStream, actor: &Type) -> TokenStream {
    tokens
        .into_iter()
        .map(|token| match token {
            TokenTree::Ident(ident) if ident == "Self" => actor.to_token_stream(),
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), without_self(group.stream(), actor));
                inner.set_span(group.span());
                TokenTree::Group(inner).into()
            }
            other => other.into(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_that_borrows_is_found() {
        let borrows = |kind: &str| borrow(kind.parse().unwrap()).is_some();

        for kind in ["&str", "Option<&str>", "(u8, &'a [u8])", "Result<Vec<&T>, E>"] {
            assert!(borrows(kind), "{kind}");
        }
        for kind in ["String", "&'static str", "Option<&'static str>", "fn(&str) -> u8", "Box<dyn Fn(&str)>"] {
            assert!(!borrows(kind), "{kind}");
        }
    }
}
