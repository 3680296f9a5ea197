//! The running server as a command sees it: questions over HTTP, JSON as answers.
//!
//! An error names the server, or is what the server said.

use std::time::Duration;

use clap::{Arg, ArgMatches};
use serde_json::Value;

use super::CliError;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(300);

/// A running server.
pub(super) struct Client {
    url: String,
    agent: ureq::Agent,
}

/// `--server`
pub(super) fn argument() -> Arg {
    Arg::new("server")
        .long("server")
        .value_name("URL")
        .default_value("http://127.0.0.1:9201")
        .help("The running promkairos that is asked")
}

impl Client {
    /// The server that `--server` names.
    pub(super) fn of(matches: &ArgMatches) -> Self {
        let url = matches.get_one::<String>("server").map_or("", |url| url.trim_end_matches('/'));
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE))
            .build();
        Self { url: url.to_owned(), agent: config.into() }
    }

    /// Status and text of a page, or why there is no answer in so long.
    pub(super) fn page(&self, path: &str, patience: Duration) -> Result<(u16, String), CliError> {
        let failed = |error: ureq::Error| CliError::Command(format!("{}: {error}", self.url));
        let request = self.agent.get(format!("{}{path}", self.url)).config();
        let request = request.timeout_global(Some(patience)).build();
        let mut answer = request.call().map_err(failed)?;
        let text = answer.body_mut().read_to_string().map_err(failed)?;
        Ok((answer.status().as_u16(), text))
    }

    /// `data` of the answer to a GET.
    pub(super) fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Value, CliError> {
        let request = self.agent.get(format!("{}{path}", self.url));
        self.data(request.query_pairs(query.iter().copied()).call())
    }

    /// `data` of the answer to a POST; null when there is nothing to say.
    pub(super) fn post(&self, path: &str, query: &[(&str, &str)]) -> Result<Value, CliError> {
        let request = self.agent.post(format!("{}{path}", self.url));
        self.data(request.query_pairs(query.iter().copied()).send_empty())
    }

    fn data(
        &self,
        answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<Value, CliError> {
        let failed = |why: String| CliError::Command(format!("{}: {why}", self.url));
        let mut answer = answer.map_err(|error| failed(error.to_string()))?;
        let text = answer.body_mut().read_to_string().map_err(|error| failed(error.to_string()))?;
        let json: Option<Value> = serde_json::from_str(&text).ok();
        match json {
            Some(mut json) if answer.status().is_success() => Ok(json["data"].take()),
            Some(json) => Err(failed(json["error"].as_str().unwrap_or(&text).to_owned())),
            None if answer.status() == 204 => Ok(Value::Null),
            None => Err(failed(format!("{}: {}", answer.status(), text.trim()))),
        }
    }
}
