//! Users, tokens and their rights.
//!
//! Passwords are kept as their bcrypt hashes, tokens as their SHA-256: a token is random and long,
//! so a fast digest is enough. Neither is ever printed. `api` enforces the rights.

use bcrypt::HashParts;

use super::super::digest::{Digest, sha256};
use super::super::error::ConfigError;
use super::super::keys::{Key, REFUSED};
use super::files::{Files, named, read_named};
use super::yaml::Entry;
use crate::model::Secret;

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
    const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Admin];

    /// Its name in the file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }

    fn bit(self) -> u8 {
        match self {
            Self::Read => 1,
            Self::Write => 2,
            Self::Admin => 4,
        }
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
    /// Whether `basic_auth_rights` lists the user.
    pub has_line: bool,
}

/// A bearer token.
#[derive(Debug, Clone)]
pub struct Token {
    /// Its name in the file.
    pub name: String,
    /// The SHA-256 of the token.
    pub digest: TokenDigest,
    /// What its bearer may do.
    pub rights: Rights,
}

/// The SHA-256 of a token: never printed, because guesses could be checked against it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TokenDigest(Digest);

impl TokenDigest {
    /// Its bytes.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("<secret>")
    }
}

/// The users of `basic_auth_users`; users that `basic_auth_rights` does not list have all rights.
pub(super) fn users(
    hashes: Option<&Entry<'_>>,
    rights: Option<&Entry<'_>>,
) -> Result<Vec<User>, ConfigError> {
    let mut users = Vec::new();
    for (name, entry) in hashes.map(Entry::entries).transpose()?.unwrap_or_default() {
        let hash = entry.text()?;
        let parts = hash.parse::<HashParts>();
        let parts = parts.map_err(|_| entry.refuse("is not a bcrypt hash"))?;
        let (hash, cost) = (Secret::new(hash.into_owned()), parts.get_cost());
        users.push(User { name, hash, cost, rights: Rights::ALL, has_line: false });
    }
    for (name, entry) in rights.map(Entry::entries).transpose()?.unwrap_or_default() {
        let rights = rights_of(&entry)?;
        match users.iter_mut().find(|user| user.name == name) {
            Some(user) => (user.rights, user.has_line) = (rights, true),
            None => return Err(entry.refuse("is not a user of basic_auth_users")),
        }
    }
    Ok(users)
}

/// The tokens of `bearer_tokens`.
pub(super) fn tokens(
    entry: Option<&Entry<'_>>,
    files: &mut Files,
) -> Result<Vec<Token>, ConfigError> {
    let mut tokens: Vec<Token> = Vec::new();
    for entry in entry.map(Entry::list).transpose()?.unwrap_or_default() {
        let token = token(&entry, files)?;
        if tokens.iter().any(|other| other.name == token.name) {
            return Err(entry.refuse("has the name of another token"));
        }
        if let Some(other) = tokens.iter().find(|other| other.digest == token.digest) {
            return Err(entry.refuse(format!("is the same token as {}", other.name)));
        }
        tokens.push(token);
    }
    Ok(tokens)
}

pub(super) static TOKEN_KEYS: [Key; 4] = [
    Key::new("name", "What the token is called", REFUSED),
    Key::new("token_file", "File with the token, and nothing else", "token_sha256 must be there"),
    Key::new(
        "token_sha256",
        "The SHA-256 of the token, in hexadecimal, in place of token_file",
        "token_file must be there",
    ),
    Key::new("rights", "A list of read, write and admin, at least one", REFUSED),
];

fn token(entry: &Entry<'_>, files: &mut Files) -> Result<Token, ConfigError> {
    let table = entry.table(&TOKEN_KEYS)?;
    let needed = |key| table.get(key).ok_or_else(|| entry.refuse(format!("{key} is missing")));
    let digest = match (table.get("token_file"), table.get("token_sha256")) {
        (Some(file), None) => digest_of_file(file, files)?,
        (None, Some(hex)) => digest_of_hex(hex)?,
        _ => return Err(entry.refuse("needs one of token_file and token_sha256")),
    };
    Ok(Token {
        name: needed("name")?.text()?.into_owned(),
        digest: TokenDigest(digest),
        rights: rights_of(needed("rights")?)?,
    })
}

fn digest_of_file(entry: &Entry<'_>, files: &mut Files) -> Result<Digest, ConfigError> {
    let bytes = read_named(entry, files)?;
    files.holds_secret(named(entry)?);
    let token = bytes.trim_ascii();
    match !token.is_empty() && token.iter().all(u8::is_ascii_graphic) {
        true => Ok(sha256(token)),
        false => Err(entry.refuse("the file must hold the token, printable and without spaces")),
    }
}

fn digest_of_hex(entry: &Entry<'_>) -> Result<Digest, ConfigError> {
    let refused = || entry.refuse("must be the SHA-256 of the token: 64 hexadecimal digits");
    let text = entry.text()?;
    let text = text.as_bytes();
    let mut digest = [0; 32];
    if text.len() != 2 * digest.len() {
        return Err(refused());
    }
    let value = |digit: u8| char::from(digit).to_digit(16).ok_or_else(refused);
    for (byte, pair) in digest.iter_mut().zip(text.chunks_exact(2)) {
        *byte = u8::try_from(value(pair[0])? * 16 + value(pair[1])?).expect("two digits");
    }
    Ok(digest)
}

fn rights_of(entry: &Entry<'_>) -> Result<Rights, ConfigError> {
    let mut rights = Rights::NONE;
    for item in entry.list()? {
        let name = item.text()?;
        let right = Right::ALL.into_iter().find(|right| right.name() == name);
        rights = rights.with(right.ok_or_else(|| item.refuse("must be read, write or admin"))?);
    }
    match rights {
        Rights::NONE => Err(entry.refuse("must name at least one of read, write and admin")),
        rights => Ok(rights),
    }
}
