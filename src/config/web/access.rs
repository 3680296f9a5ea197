//! The keys of users and tokens, and their rights. `api` enforces them.

use bcrypt::HashParts;

use super::super::error::ConfigError;
use super::super::keys::{Key, REFUSED};
use super::files::{Files, named, read_named};
use super::yaml::Entry;
use crate::api::{Right, Rights, Token, TokenDigest, User};
use crate::model::Secret;

/// The users of `basic_auth_users`, and the names of those that `basic_auth_rights` does not list: they have all
/// rights.
pub(super) fn users(
    hashes: Option<&Entry<'_>>,
    rights: Option<&Entry<'_>>,
) -> Result<(Vec<User>, Vec<String>), ConfigError> {
    let (mut users, mut without_line) = (Vec::<User>::new(), Vec::new());
    for (name, entry) in hashes.map(Entry::entries).transpose()?.unwrap_or_default() {
        let hash = entry.text()?;
        let parts = hash.parse::<HashParts>();
        let parts = parts.map_err(|_| entry.refuse("is not a bcrypt hash"))?;
        let (hash, cost) = (Secret::new(hash.into_owned()), parts.get_cost());
        without_line.push(name.clone());
        users.push(User { name, hash, cost, rights: Rights::ALL });
    }
    for (name, entry) in rights.map(Entry::entries).transpose()?.unwrap_or_default() {
        let rights = rights_of(&entry)?;
        match users.iter_mut().find(|user| user.name == name) {
            Some(user) => user.rights = rights,
            None => return Err(entry.refuse("is not a user of basic_auth_users")),
        }
        without_line.retain(|other| *other != name);
    }
    Ok((users, without_line))
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
        digest,
        rights: rights_of(needed("rights")?)?,
    })
}

fn digest_of_file(entry: &Entry<'_>, files: &mut Files) -> Result<TokenDigest, ConfigError> {
    let bytes = read_named(entry, files)?;
    files.holds_secret(named(entry)?);
    let token = bytes.trim_ascii();
    match !token.is_empty() && token.iter().all(u8::is_ascii_graphic) {
        true => Ok(TokenDigest::of(token)),
        false => Err(entry.refuse("the file must hold the token, printable and without spaces")),
    }
}

fn digest_of_hex(entry: &Entry<'_>) -> Result<TokenDigest, ConfigError> {
    let refused = || entry.refuse("must be the SHA-256 of the token: 64 hexadecimal digits");
    let text = entry.text()?;
    let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let digits = digits.filter(|digits| digits.len() == 64).ok_or_else(refused)?;
    let byte = |at: usize| (digits[2 * at] * 16 + digits[2 * at + 1]) as u8;
    Ok(TokenDigest::new(std::array::from_fn(byte)))
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
