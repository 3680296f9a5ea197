//! The setting `allowed-origins`: the web origins whose pages may send requests that change something.
//!
//! An origin is kept as browsers write it (RFC 6454): scheme, host, and the port unless it is the
//! scheme's default, in lower case. The router, not this file, decides which requests change something.

use axum::http::uri::Authority;

/// Other origins than the server's own whose pages may send requests that change something.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedOrigins {
    any: bool,
    listed: Vec<String>,
}

impl AllowedOrigins {
    /// Reads the text of the setting: comma-separated origins, or `*` for every origin. An error says what is wrong
    /// with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut allowed = Self::default();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            match entry {
                "*" => allowed.any = true,
                origin => allowed.listed.push(normalised(origin).ok_or_else(|| {
                    format!("{origin:?} is not an origin such as https://grafana.example.org:3000")
                })?),
            }
        }
        Ok(allowed)
    }

    /// Whether pages of this origin, the value of an `Origin` header, are allowed.
    pub(super) fn allows(&self, origin: &str) -> bool {
        self.any || normalised(origin).is_some_and(|origin| self.listed.contains(&origin))
    }
}

/// `scheme://host[:port]` in lower case, without the scheme's default port; `None` = not of that form.
fn normalised(origin: &str) -> Option<String> {
    let origin = origin.to_ascii_lowercase();
    let (scheme, authority) = origin.split_once("://")?;
    let own_port = match scheme {
        "http" => ":80",
        "https" => ":443",
        _ => return None,
    };
    let parsed: Authority = authority.parse().ok()?;
    // An origin has no user, and its port is a number.
    let is_plain = !authority.contains('@') && !parsed.host().is_empty();
    let has_port = parsed.as_str().len() > parsed.host().len();
    if !is_plain || has_port && parsed.port_u16().is_none() {
        return None;
    }
    let authority = authority.strip_suffix(own_port).unwrap_or(authority);
    Some(format!("{scheme}://{authority}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_compared_as_browsers_write_them() {
        let allowed = AllowedOrigins::parse(
            "https://grafana.example.org, http://Localhost:3000,https://a.example:443",
        );
        let allowed = allowed.expect("valid");
        for (origin, want) in [
            ("https://grafana.example.org", true),
            ("https://GRAFANA.example.org:443", true),
            ("http://grafana.example.org", false),
            ("https://grafana.example.org:444", false),
            ("https://grafana.example.org.evil.example", false),
            ("http://localhost:3000", true),
            ("https://a.example", true),
            ("null", false),
            ("", false),
            ("https://", false),
        ] {
            assert_eq!(allowed.allows(origin), want, "{origin}");
        }
        let any = AllowedOrigins::parse("*").expect("valid");
        assert!(any.allows("null") && any.allows("http://evil.example"));
        assert!(!AllowedOrigins::parse("").expect("valid").allows("http://evil.example"));
    }

    #[test]
    fn what_is_no_origin_is_refused() {
        for text in [
            "grafana.example.org",
            "https://",
            "https://a.example/path",
            "https://user@a.example",
            "ftp://a.example",
            "https://a.example:port",
            "null",
        ] {
            assert!(AllowedOrigins::parse(text).is_err(), "{text}");
        }
    }
}
