//! A path: its methods, the right that it needs, and its handler. The table is in `routes`.

use axum::routing::{MethodFilter, MethodRouter};

use super::access::settings::Right;
use super::state::SharedState;

/// One path.
pub struct Route {
    /// The path; `{name}` matches any one segment.
    pub path: &'static str,
    /// The methods of the path.
    pub methods: Methods,
    /// The right that a request needs; `None` = no login is needed.
    pub right: Option<Right>,
    pub(super) kind: Kind,
    /// The handler for these methods.
    pub(super) handler: Handler,
}

/// The methods of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Methods {
    /// GET and HEAD.
    Page,
    /// GET.
    Get,
    /// GET, or POST for parameters that are too long for a URL.
    GetOrPost,
    /// POST.
    Post,
    /// DELETE.
    Delete,
    /// POST or PUT.
    Change,
    /// POST or PUT, for a path that controls the process; other methods are refused with a sentence.
    Steer,
}

impl Methods {
    /// The names. All paths except those of [`Methods::Steer`] also take OPTIONS.
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Self::Page => &["GET", "HEAD"],
            Self::Get => &["GET"],
            Self::GetOrPost => &["GET", "POST"],
            Self::Post => &["POST"],
            Self::Delete => &["DELETE"],
            Self::Change | Self::Steer => &["POST", "PUT"],
        }
    }
}

/// The layers of a handler besides its right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Answers are compressed.
    Page,
    /// Answers need an open store, are compressed, and may be read by pages of other origins.
    Query,
    /// Answers are compressed, and may be read by pages of other origins; the handler does all else.
    Compressed,
    /// Answers may be read by pages of other origins; the handler does all else.
    Call,
}

/// Adds a handler to a route for these methods.
pub(super) type Handler = fn(MethodFilter) -> MethodRouter<SharedState>;
