//! The table of routes on a real server: each path by each method, also with a trailing slash, for each kind of user.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use promkairos::api::{KAIROSDB_ROUTES, Methods, ROUTES, Right, Route};
use reqwest::redirect::Policy;

use super::{HASH, start};
use crate::support::promkairos::Promkairos;

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// A kind of user.
#[derive(Debug, Clone, Copy)]
enum Who {
    /// Without credentials.
    Nobody,
    /// A known user with a wrong password.
    Guesser,
    /// A user with all rights but this one.
    Without(Right),
    /// A user with this right alone.
    With(Right),
    /// A user without a line in the table of rights.
    Unsaid,
}

impl Who {
    /// The header `Authorization`, if it is sent.
    fn says(self) -> Option<String> {
        let (user, password) = match self {
            Self::Nobody => return None,
            Self::Guesser => ("unsaid".to_owned(), "guess-47"),
            Self::Without(right) => (format!("but-{}", right.name()), "pass-47"),
            Self::With(right) => (format!("only-{}", right.name()), "pass-47"),
            Self::Unsaid => ("unsaid".to_owned(), "pass-47"),
        };
        Some(format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))))
    }
}

/// A web configuration with all of these users.
fn everybody() -> String {
    let [mut users, mut rights] = ["basic_auth_users:\n", "basic_auth_rights:\n"].map(String::from);
    users += &format!("  unsaid: {HASH}\n");
    for right in Right::ALL {
        let others = Right::ALL.iter().filter(|other| **other != right).map(|other| other.name());
        let others = others.collect::<Vec<_>>().join(", ");
        let right = right.name();
        users += &format!("  only-{right}: {HASH}\n  but-{right}: {HASH}\n");
        rights += &format!("  only-{right}: [{right}]\n  but-{right}: [{others}]\n");
    }
    users + &rights
}

/// An answer.
#[derive(Debug)]
struct Got {
    /// The request and the user.
    #[expect(dead_code, reason = "printed when a check fails")]
    asked: String,
    status: u16,
    allow: Option<String>,
    location: Option<String>,
    body: String,
}

async fn ask(
    client: &reqwest::Client,
    server: &Promkairos,
    who: Who,
    (method, path): (&str, &str),
) -> Got {
    let mut request = client.request(method.parse().expect("a method"), server.url(path));
    if let Some(said) = who.says() {
        request = request.header("Authorization", said);
    }
    let answer = request.send().await.expect("an answer");
    let header = |name: &str| {
        let value = answer.headers().get(name)?;
        Some(value.to_str().expect("ASCII").to_owned())
    };
    let (allow, location) = (header("allow"), header("location"));
    let status = answer.status().as_u16();
    let asked = format!("{method} {path} by {who:?}");
    Got { asked, status, allow, location, body: answer.text().await.expect("a text") }
}

/// Asserts that a user with the right gets the answer that the methods of this route define.
fn check_let_in(route: &Route, method: &str, with_slash: bool, got: &Got) {
    let is_api = route.path.starts_with("/api/v1/");
    let refused = got.body.starts_with("Forbidden: this needs the right ");
    assert!(got.status != 401 && !refused, "{got:?}");
    if is_api && method == "OPTIONS" {
        assert_eq!(got.status, 204, "a browser asks: {got:?}");
    } else if with_slash {
        let clean = route.path.replace("{name}", "a");
        assert_eq!((got.status, got.location.as_deref()), (307, Some(clean.as_str())), "{got:?}");
    } else if route.methods.names().contains(&method) {
        assert!(![404, 405].contains(&got.status), "{got:?}");
    } else if route.methods == Methods::Steer {
        assert_eq!(got.status, 405, "{got:?}");
    } else {
        let want = if method == "OPTIONS" { 200 } else { 405 };
        assert_eq!(got.status, want, "{got:?}");
        let allowed = got.allow.as_deref().expect("the methods that it takes");
        let mut allowed: Vec<&str> = allowed.split(", ").collect();
        allowed.retain(|method| *method != "OPTIONS");
        assert_eq!(allowed, route.methods.names(), "{got:?}");
    }
}

/// Asserts that a user without the right gets nothing from this route.
fn check_kept_out(route: &Route, right: Right, method: &str, got: &Got) {
    if route.path.starts_with("/api/v1/") && method == "OPTIONS" {
        // The answer gives the methods that a browser may send, but no data.
        assert_eq!(got.status, 204, "{got:?}");
        return;
    }
    assert_eq!(got.status, 403, "{got:?}");
    let why = format!("Forbidden: this needs the right \"{}\"\n", right.name());
    assert!(got.body == why || method == "HEAD" && got.body.is_empty(), "{got:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_route_asks_each_that_comes_for_its_right() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = start(folder.path(), &everybody(), &["--enable-admin-api"]);
    server.wait_ready().await;
    let client = reqwest::Client::builder().redirect(Policy::none()).build().expect("a client");
    let mut count = 0;
    for route in ROUTES.iter().chain(KAIROSDB_ROUTES) {
        let path = route.path.replace("{name}", "a");
        let slashes = if path == "/" { &[false][..] } else { &[false, true] };
        for (method, &with_slash) in
            METHODS.iter().flat_map(|m| slashes.iter().map(move |s| (m, s)))
        {
            let path = if with_slash { format!("{path}/") } else { path.clone() };
            // Only the health page itself needs no right; the redirect to it does.
            let asks = route.right.is_some() || with_slash;
            let some = route.right.unwrap_or(Right::Read);
            for who in [Who::Nobody, Who::Guesser, Who::Without(some), Who::With(some), Who::Unsaid]
            {
                let got = ask(&client, &server, who, (method, &path)).await;
                match (who, route.right) {
                    (Who::Nobody | Who::Guesser, _) if asks => {
                        assert_eq!(got.status, 401, "{got:?}");
                        assert!(got.body == "Unauthorized\n" || *method == "HEAD", "{got:?}");
                    }
                    (Who::Without(_), Some(right)) => check_kept_out(route, right, method, &got),
                    _ => check_let_in(route, method, with_slash, &got),
                }
                count += 1;
            }
        }
    }
    println!("{count} requests");
    assert!(count > 3000, "{count}");
}
