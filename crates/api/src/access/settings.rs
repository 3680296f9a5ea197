//! Users, tokens and their rights, the rate limit, and the headers of every answer: the part of the web configuration
//! that answers depend on. The other part is TLS of the listener.
//!
//! Passwords are kept as their bcrypt hashes, tokens as their SHA-256: a token is random and long, so a fast digest is
//! enough. Neither is ever printed. No file is read here.

use std::fmt;
use std::time::Duration;

use ring::digest::{SHA256, digest};

use promkairos_model::Secret;

/// What answers depend on. The default lets everybody do everything. Changes while the server runs.
#[derive(Debug, Clone, Default)]
pub struct WebSettings {
    /// Headers of every answer: a name in lower case, and a value. A header with an empty value is not sent.
    pub headers: Vec<(&'static str, String)>,
    /// Limit on the rate of requests; `None` = no limit.
    pub rate_limit: Option<RateLimit>,
    /// Users with passwords.
    pub users: Vec<User>,
    /// Bearer tokens.
    pub tokens: Vec<Token>,
}

impl WebSettings {
    /// Whether no authentication is required.
    pub fn is_open(&self) -> bool {
        self.users.is_empty() && self.tokens.is_empty()
    }
}

/// A limit on the rate of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// Time between two added tokens; never zero.
    pub interval: Duration,
    /// Size of the bucket; at least one.
    pub burst: u32,
}

/// A user with a password.
#[derive(Debug, Clone)]
pub struct User {
    /// The name.
    pub name: String,
    /// The bcrypt hash of the password, in its usual text form.
    pub hash: Secret,
    /// Cost factor of the hash: the logarithm of its work.
    pub cost: u32,
    /// What the user may do.
    pub rights: Rights,
}

/// A bearer token.
#[derive(Debug, Clone)]
pub struct Token {
    /// Its name.
    pub name: String,
    /// The SHA-256 of the token.
    pub digest: TokenDigest,
    /// What its bearer may do.
    pub rights: Rights,
}

/// The SHA-256 of a token: never printed, because guesses could be checked against it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TokenDigest([u8; 32]);

impl TokenDigest {
    /// The digest with these bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The digest of this token.
    pub fn of(token: &[u8]) -> Self {
        let digest = digest(&SHA256, token);
        Self(digest.as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }

    /// Its bytes.
    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}

/// What a request may require.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Queries, remote read, metrics and everything else that changes nothing.
    Read,
    /// Remote write.
    Write,
    /// Deletes, builds and drops of the tag index, and control of the process.
    Admin,
}

impl Right {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Admin];

    /// Its name in settings and answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rights(u8);

impl Rights {
    /// No right.
    pub const NONE: Self = Self(0);
    /// All rights.
    pub const ALL: Self = Self(7);

    /// These rights and one more.
    pub fn with(self, right: Right) -> Self {
        Self(self.0 | right.bit())
    }

    /// Whether `right` is included.
    pub fn has(self, right: Right) -> bool {
        self.0 & right.bit() != 0
    }
}
