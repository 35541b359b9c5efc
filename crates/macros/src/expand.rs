//! Writes the message type, the typed reference and the implementation of `Actor`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;

use crate::block::Block;
use crate::method::{Answer, Info, Init, Input, Method, Terminate};

/// Returns the block itself and what belongs to it.
pub(crate) fn expand(block: &Block) -> TokenStream {
    let item = &block.item;
    let message = message_type(block);
    let reference = reference_type(block);
    let client = client(block);
    let actor = actor(block);
    quote! {
        #[allow(clippy::needless_pass_by_value, clippy::unused_async, clippy::unused_self, clippy::unused_unit,
            reason = "a message owns its values, and may ignore its actor")]
        #item
        #message
        #reference
        #client
        #actor
    }
}

fn message_type(block: &Block) -> TokenStream {
    let Block { library, message, generics, actor, .. } = block;
    let (impl_generics, type_generics, bounds) = generics.split_for_impl();
    let variants = block.methods.iter().map(|method| {
        let Method { variant, docs, cfgs, .. } = method;
        let fields = method.inputs.iter().filter_map(Input::field).map(|(name, kind)| quote!(#name: #kind));
        let reply = match &method.reply {
            Answer::None => None,
            Answer::Returned(kind) | Answer::Later(kind) => Some(quote!(reply: #library::ReplyTo<#kind>)),
        };
        let fields = fields.chain(reply);
        quote!(#(#docs)* #(#cfgs)* #variant { #(#fields),* })
    });
    let names = block.methods.iter().map(|method| {
        let Method { variant, cfgs, .. } = method;
        let text = variant.to_string();
        quote!(#(#cfgs)* Self::#variant { .. } => #text)
    });
    let summary = format!("Messages of [`{}`].", plain(actor));
    // Uses all type parameters; it cannot be created.
    let (unused, unused_name) = if generics.params.is_empty() {
        (None, None)
    } else {
        (
            Some(quote! {
                #[doc(hidden)]
                Unused(::std::convert::Infallible, ::std::marker::PhantomData<fn() -> #actor>),
            }),
            Some(quote!(Self::Unused(never, _) => match *never {},)),
        )
    };
    quote! {
        #[doc = #summary]
        #[allow(missing_docs, private_interfaces, unreachable_pub, dead_code, reason = "written by a macro")]
        pub enum #message #impl_generics #bounds {
            #(#variants,)*
            #unused
        }

        impl #impl_generics ::std::fmt::Debug for #message #type_generics #bounds {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(match self {
                    #(#names,)*
                    #unused_name
                    #[allow(unreachable_patterns, reason = "an actor may have only callbacks")]
                    _ => "",
                })
            }
        }
    }
}

fn reference_type(block: &Block) -> TokenStream {
    let Block { library, message, reference, generics, actor, .. } = block;
    let (impl_generics, type_generics, bounds) = generics.split_for_impl();
    let summary = format!("A typed reference to a [`{}`], with a method for each of its messages.", plain(actor));
    quote! {
        #[doc = #summary]
        #[allow(unreachable_pub, private_interfaces, reason = "written by a macro")]
        pub struct #reference #impl_generics #bounds {
            address: #library::actor::Address<#message #type_generics>,
            timeout: #library::actor::CallTimeout,
        }

        impl #impl_generics #reference #type_generics #bounds {
            /// Returns this reference with another timeout for its calls; the default is 5 s.
            #[allow(dead_code, unreachable_pub, reason = "written by a macro")]
            pub fn with_timeout(self, timeout: ::std::time::Duration) -> Self {
                Self { timeout: timeout.into(), ..self }
            }
        }

        #[allow(clippy::expl_impl_clone_on_copy, reason = "a derived one would bound the type parameters")]
        impl #impl_generics ::std::clone::Clone for #reference #type_generics #bounds {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl #impl_generics ::std::marker::Copy for #reference #type_generics #bounds {}

        impl #impl_generics ::std::cmp::PartialEq for #reference #type_generics #bounds {
            fn eq(&self, other: &Self) -> bool {
                self.address == other.address
            }
        }

        impl #impl_generics ::std::cmp::Eq for #reference #type_generics #bounds {}

        impl #impl_generics ::std::hash::Hash for #reference #type_generics #bounds {
            fn hash<H: ::std::hash::Hasher>(&self, state: &mut H) {
                ::std::hash::Hash::hash(&self.address, state);
            }
        }

        impl #impl_generics ::std::fmt::Debug for #reference #type_generics #bounds {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                ::std::write!(f, "{}({})", ::std::stringify!(#reference), self.address.pid())
            }
        }

        impl #impl_generics ::std::convert::From<#library::actor::Address<#message #type_generics>>
            for #reference #type_generics #bounds
        {
            fn from(address: #library::actor::Address<#message #type_generics>) -> Self {
                Self { address, timeout: ::std::default::Default::default() }
            }
        }

        impl #impl_generics ::std::convert::From<#reference #type_generics>
            for #library::actor::Address<#message #type_generics> #bounds
        {
            fn from(reference: #reference #type_generics) -> Self {
                reference.address
            }
        }

        impl #impl_generics ::std::ops::Deref for #reference #type_generics #bounds {
            type Target = #library::actor::Address<#message #type_generics>;

            fn deref(&self) -> &Self::Target {
                &self.address
            }
        }
    }
}

/// The methods of the reference.
fn client(block: &Block) -> TokenStream {
    let Block { reference, generics, .. } = block;
    let (impl_generics, type_generics, bounds) = generics.split_for_impl();
    let methods = block.methods.iter().map(|method| client_method(block, method));
    quote! {
        #[allow(dead_code, private_interfaces, clippy::too_many_arguments, clippy::wrong_self_convention,
            clippy::should_implement_trait, reason = "written by a macro")]
        impl #impl_generics #reference #type_generics #bounds {
            #(#methods)*
        }
    }
}

fn client_method(block: &Block, method: &Method) -> TokenStream {
    let Block { library, message, .. } = block;
    let Method { name, variant, visibility, docs, cfgs, .. } = method;
    let by = Ident::new("by", Span::mixed_site());
    let parameters = method.inputs.iter().filter_map(|input| match input {
        Input::Text { name, .. } => {
            Some(quote!(#name: impl ::std::convert::Into<::std::string::String> + ::std::marker::Send))
        }
        Input::Value { name, kind } => Some(quote!(#name: #kind)),
        Input::Context | Input::Reason | Input::Reply => None,
    });
    let conversions = method.inputs.iter().filter_map(|input| match input {
        Input::Text { name, .. } => Some(quote!(let #name: ::std::string::String = #name.into();)),
        _ => None,
    });
    let fields: Vec<&Ident> = method.inputs.iter().filter_map(Input::field).map(|(name, _)| name).collect();
    match &method.reply {
        Answer::None => quote! {
            #(#docs)* #(#cfgs)*
            #visibility fn #name<'by>(
                self, #by: &'by impl #library::Caller #(, #parameters)*
            ) -> impl ::std::future::Future<Output = ()> + ::std::marker::Send + 'by {
                #(#conversions)*
                self.address.send(#by, #message::#variant { #(#fields),* })
            }
        },
        Answer::Returned(kind) | Answer::Later(kind) => {
            let errors =
                "# Errors\n[`CallError`](rusm::CallError) if the actor ends before it replies, or after the timeout.";
            let errors = if docs.is_empty() { quote!(#[doc = #errors]) } else { quote!(#[doc = ""] #[doc = #errors]) };
            quote! {
                #(#docs)* #errors #(#cfgs)*
                #visibility async fn #name(
                    self, #by: &impl #library::Caller #(, #parameters)*
                ) -> ::std::result::Result<#kind, #library::CallError> {
                    #(#conversions)*
                    self.address
                        .call_within(#by, self.timeout.get(), move |reply| #message::#variant { #(#fields,)* reply })
                        .await
                }
            }
        }
    }
}

fn actor(block: &Block) -> TokenStream {
    let Block { library, actor, message, reference, generics, .. } = block;
    let (impl_generics, type_generics, bounds) = generics.split_for_impl();
    let unmatched = block
        .unmatched
        .as_ref()
        .map(|policy| quote!(const UNMATCHED: #library::actor::Unmatched = #library::actor::Unmatched::#policy;));
    let (args, init) = init(block);
    let arms = block.methods.iter().map(|method| arm(block, method));
    let unused = (!generics.params.is_empty()).then(|| quote!(#message::Unused(never, _) => match never {},));
    let info = (!block.infos.is_empty()).then(|| handle_info(block));
    let terminate = block.terminate.as_ref().map(|terminate| terminate_method(block, terminate));
    quote! {
        #[allow(private_interfaces, clippy::unused_async, clippy::let_unit_value, clippy::unit_arg, clippy::let_underscore_must_use, clippy::needless_question_mark, reason = "written by a macro")]
        impl #impl_generics #library::actor::Actor for #actor #bounds {
            type Args = #args;
            type Message = #message #type_generics;
            type Ref = #reference #type_generics;
            #unmatched

            #init

            #[inline]
            async fn handle(&mut self, ctx: &#library::Context, message: Self::Message) -> #library::actor::Flow {
                match message {
                    #(#arms)*
                    #unused
                }
            }

            fn debug_state(&self) -> ::std::string::String {
                #[allow(unused_imports, reason = "the compiler chooses one of them")]
                use #library::actor::{ShowDebug as _, ShowName as _};
                (&#library::actor::Shown(self)).show()
            }

            #info
            #terminate
        }
    }
}

fn init(block: &Block) -> (TokenStream, TokenStream) {
    let Block { library, actor, init, .. } = block;
    let Some(Init { inputs, is_async, is_fallible }) = init else {
        let init = quote! {
            async fn init(
                _: &#library::Context, args: Self::Args
            ) -> ::std::result::Result<Self, #library::ExitReason> {
                ::std::result::Result::Ok(args)
            }
        };
        return (quote!(#actor), init);
    };
    let fields: Vec<_> = inputs.iter().filter_map(Input::field).collect();
    let (names, kinds): (Vec<_>, Vec<_>) = fields.into_iter().unzip();
    let (args, pattern) = match (&names[..], &kinds[..]) {
        ([name], [kind]) => (kind.clone(), quote!(#name)),
        _ => (quote!((#(#kinds),*)), quote!((#(#names),*))),
    };
    let arguments = arguments(inputs);
    let wait = is_async.then(|| quote!(.await));
    let question = is_fallible.then(|| quote!(?));
    let init = quote! {
        async fn init(
            ctx: &#library::Context, args: Self::Args
        ) -> ::std::result::Result<Self, #library::ExitReason> {
            let _ = ctx;
            let #pattern = args;
            ::std::result::Result::Ok(<#actor>::init(#(#arguments),*) #wait #question)
        }
    };
    (args, init)
}

fn arguments(inputs: &[Input]) -> Vec<TokenStream> {
    inputs
        .iter()
        .map(|input| match input {
            Input::Context => quote!(ctx),
            Input::Reason => quote!(reason),
            Input::Reply => quote!(reply),
            Input::Text { name, is_borrowed: true } => quote!(&#name),
            Input::Text { name, .. } | Input::Value { name, .. } => quote!(#name),
        })
        .collect()
}

/// Passes a message to its method.
fn arm(block: &Block, method: &Method) -> TokenStream {
    let Block { library, message, actor, .. } = block;
    let Method { name, variant, cfgs, .. } = method;
    let fields = method.inputs.iter().filter_map(Input::field).map(|(name, _)| name);
    let reply = (!matches!(method.reply, Answer::None)).then(|| quote!(reply));
    let fields = fields.map(|name| quote!(#name)).chain(reply);
    let arguments = arguments(&method.inputs);
    let wait = method.is_async.then(|| quote!(.await));
    let call = quote!(<#actor>::#name(self #(, #arguments)*) #wait);
    let flow = match &method.reply {
        _ if method.returns_flow => call,
        Answer::Returned(_) => quote! {
            let value = #call;
            let _ = reply.send(ctx, value);
            #library::actor::Flow::Continue
        },
        Answer::None | Answer::Later(_) => quote! {
            #call;
            #library::actor::Flow::Continue
        },
    };
    quote!(#(#cfgs)* #message::#variant { #(#fields),* } => { #flow })
}

fn handle_info(block: &Block) -> TokenStream {
    let Block { library, actor, .. } = block;
    let unique = block.generics.params.is_empty().then(|| unique_infos(block));
    let attempts = block.infos.iter().map(|info| {
        let Info { name, inputs, message, is_async, returns_flow, cfgs } = info;
        let wait = is_async.then(|| quote!(.await));
        let arguments = inputs.iter().map(|input| match input {
            Input::Context => quote!(ctx),
            Input::Text { is_borrowed: true, .. } => quote!(&value),
            _ => quote!(value),
        });
        let call = quote!(<#actor>::#name(self #(, #arguments)*) #wait);
        let flow = if *returns_flow { call } else { quote!({ #call; #library::actor::Flow::Continue }) };
        quote! {
            #(#cfgs)*
            let message = match message.downcast::<#message>() {
                ::std::result::Result::Ok(value) => return ::std::result::Result::Ok(#flow),
                ::std::result::Result::Err(message) => message,
            };
        }
    });
    quote! {
        async fn handle_info(
            &mut self, ctx: &#library::Context, message: #library::Message
        ) -> ::std::result::Result<#library::actor::Flow, #library::Message> {
            #unique
            let _ = ctx;
            #(#attempts)*
            ::std::result::Result::Err(message)
        }
    }
}

/// Makes two methods for one type a mistake, also if they call it by different names. Types with parameters may become the
/// same one.
fn unique_infos(block: &Block) -> TokenStream {
    let actor = &block.actor;
    let handled = block
        .infos
        .iter()
        .map(|Info { message, cfgs, .. }| quote!(#(#cfgs)* impl OneInfoMethodFor<#message> for #actor {}));
    quote! {
        #[allow(dead_code, non_local_definitions, reason = "written by a macro")]
        trait OneInfoMethodFor<M> {}
        #(#handled)*
    }
}

fn terminate_method(block: &Block, terminate: &Terminate) -> TokenStream {
    let Block { library, actor, .. } = block;
    let arguments = arguments(&terminate.inputs);
    let wait = terminate.is_async.then(|| quote!(.await));
    quote! {
        async fn terminate(self, ctx: &#library::Context, reason: &#library::ExitReason) {
            let _ = (ctx, reason);
            <#actor>::terminate(self #(, #arguments)*) #wait;
        }
    }
}

/// The name of a type for a document.
fn plain(actor: &syn::Type) -> String {
    match actor {
        syn::Type::Path(path) => path.path.segments.last().map_or_else(String::new, |last| last.ident.to_string()),
        _ => String::new(),
    }
}
