//! The shapes of arguments that are not settings.

use clap::builder::StyledStr;
use clap::{Arg, ArgAction};

/// `--name`, without a value.
pub(super) fn switch(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

/// `--name VALUE`.
pub(super) fn valued(name: &'static str, value: &'static str, help: impl Into<StyledStr>) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help.into())
}
