//! Group-bys, aggregators and plugins as lists of objects with a name, before anybody knows their classes.

use super::bean::Bean;
use crate::error::QueryError;
use crate::json::Json;
use crate::limits::Limits;

/// A group-by, an aggregator or a plugin.
pub(super) struct Feature<'a> {
    /// Where it is, such as `query.metric[0].aggregators[0]`.
    pub(super) context: String,
    /// Which one.
    pub(super) name: String,
    /// Its properties, with its name.
    members: &'a [(String, Json)],
}

impl Feature<'_> {
    /// Its properties, without its name.
    pub(super) fn properties(&self) -> impl Iterator<Item = Bean<'_>> {
        let properties = self.members.iter().filter(|(name, _)| name != "name");
        properties.map(|(name, value)| Bean { context: &self.context, property: name, value })
    }

    /// A property that the class does not have.
    pub(super) fn no_setter(&self, property: &str, class: &str) -> QueryError {
        QueryError::Json(format!(
            "Property '{property}' was specified for object '{}' but no matching setter was found \
             on '{class}'",
            self.name
        ))
    }

    /// A name that no class has.
    pub(super) fn unknown(&self, family: &str) -> QueryError {
        QueryError::invalid(&self.context, &self.name, &format!("invalid {family} name"))
    }
}

/// The features of a family.
pub(super) fn list<'a>(
    json: &'a Json,
    family: &str,
    allowed: usize,
    limit: &'static str,
) -> Result<&'a [Json], QueryError> {
    match json.get(family) {
        None => Ok(&[]),
        Some(Json::List(list)) => {
            Limits::check(list.len(), allowed, family, limit)?;
            Ok(list)
        }
        Some(_) => Err(QueryError::Json("This is not a JSON Array.".into())),
    }
}

/// One of them.
pub(super) fn feature<'a>(
    json: &'a Json,
    family: &str,
    at: usize,
    context: &str,
) -> Result<Feature<'a>, QueryError> {
    let Json::Object(members) = json else { return Err(QueryError::Json(not_an_object(json))) };
    let path = format!("{family}[{at}]");
    let name = json.get("name").and_then(Json::as_text).filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| QueryError::invalid(context, &path, "must have a name"))?;
    Ok(Feature { context: format!("{context}.{path}"), name, members })
}

/// There are no plugins.
pub(super) fn refuse_plugins(context: &str, json: &Json) -> Result<(), QueryError> {
    let Json::List(list) = json else {
        return Err(QueryError::Json("This is not a JSON Array.".into()));
    };
    match list.first() {
        Some(plugin) => Err(feature(plugin, "plugins", 0, context)?.unknown("query plugin")),
        None => Ok(()),
    }
}

/// The message of Gson.
pub(super) fn not_an_object(json: &Json) -> String {
    format!("Not a JSON Object: {}", json.to_text())
}
