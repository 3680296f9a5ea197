//! What a HOCON text says of each key, in the order of the text, with lines.
//!
//! The crate `hocon` parses the grammar; this file turns paths of keys into nested tables. Values are
//! resolved in `values`. No other file is read: an `include` is an error. Errors name a line and never
//! repeat its text, which may be a password.

use std::collections::BTreeMap;

use hocon::TokenKind;
use hocon::parser::{AstField, AstNode, parse_tokens};
use hocon::value::ScalarType;

/// Most levels of nested tables and lists; each key of a path is a table.
pub(super) const MOST_DEPTH: usize = 100;

/// A concatenation of values of different kinds.
pub(super) const MIXED: &str = "a text, a list or a table stands beside another of these";

/// An include.
const INCLUDE: &str = "an include, which is not followed";

/// An error about a line.
pub(super) fn at(line: usize, reason: impl std::fmt::Display) -> String {
    format!("line {line}: {reason}")
}

/// The syntax of a text, which [`Table::of`] borrows from.
pub(super) fn syntax(text: &str) -> Result<AstNode, String> {
    let tokens = hocon::tokenize(text).map_err(not_hocon)?;
    let halves = tokens.iter().map(|token| (&token.kind, token.line));
    check_halves(halves)?;
    parse_tokens(&tokens).map_err(not_hocon)
}

/// Hides the message of the crate, which repeats values.
fn not_hocon(error: hocon::ParseError) -> String {
    format!("line {}, column {}: is not HOCON", error.line, error.col)
}

/// Whether all braces and brackets are balanced and not nested too deeply.
fn check_halves<'a>(tokens: impl Iterator<Item = (&'a TokenKind, usize)>) -> Result<(), String> {
    let alone = |line| format!("is not HOCON: a brace or bracket of line {line} has no other half");
    let mut open = Vec::new();
    for (kind, line) in tokens {
        match kind {
            TokenKind::LBrace => open.push((TokenKind::RBrace, line)),
            TokenKind::LBracket => open.push((TokenKind::RBracket, line)),
            TokenKind::RBrace | TokenKind::RBracket => match open.pop() {
                Some((end, _)) if end == *kind => {}
                Some((_, line)) => return Err(alone(line)),
                None => return Err(alone(line)),
            },
            _ => {}
        }
        check_depth(open.len(), line)?;
    }
    open.pop().map_or(Ok(()), |(_, line)| Err(alone(line)))
}

fn check_depth(depth: usize, line: usize) -> Result<(), String> {
    match depth > MOST_DEPTH {
        true => {
            Err(at(line, format_args!("more than {MOST_DEPTH} tables and lists within each other")))
        }
        false => Ok(()),
    }
}

/// What is said of each key, in the order of the text: a later layer replaces or adds to earlier ones.
#[derive(Debug, Default)]
pub(super) struct Table<'a>(pub(super) BTreeMap<&'a str, Vec<Layer<'a>>>);

/// One statement about a key, or about an item of a list.
#[derive(Debug)]
pub(super) struct Layer<'a> {
    /// The line of the key or item.
    pub(super) line: usize,
    /// What is said.
    pub(super) part: Part<'a>,
    /// Whether it is concatenated with a table, and so must be a table or nothing.
    pub(super) is_beside_table: bool,
}

/// An unresolved value.
#[derive(Debug)]
pub(super) enum Part<'a> {
    Null,
    /// A text, a number, a boolean, or the white space between two values.
    Text(&'a str),
    /// Items; each has several layers, as a key does.
    List(Vec<Vec<Layer<'a>>>),
    /// What `+=` adds to a list.
    Item(Vec<Layer<'a>>),
    Table(Table<'a>),
    Substitution {
        path: Vec<&'a str>,
        optional: bool,
    },
    /// Concatenated values, and whether each is only the white space between two others.
    Several(Vec<(Part<'a>, bool)>),
}

impl<'a> Layer<'a> {
    fn new(line: usize, part: Part<'a>) -> Self {
        Self { line, part, is_beside_table: false }
    }
}

impl<'a> Table<'a> {
    /// The table of a whole text; `None` if the text is a list.
    pub(super) fn of(syntax: &'a AstNode) -> Result<Option<Self>, String> {
        match syntax {
            AstNode::Object { fields, .. } => Self::with(fields, 0).map(Some),
            _ => Ok(None),
        }
    }

    /// A table below `above` keys.
    fn with(fields: &'a [AstField], above: usize) -> Result<Self, String> {
        let mut table = Self::default();
        for field in fields {
            let line = field.pos.line;
            let Some((first, rest)) = field.key.split_first() else {
                return Err(at(line, INCLUDE));
            };
            let depth = above + field.key.len();
            check_depth(depth, line)?;
            let mut layers = layers(&field.value, line, depth)?;
            if field.append {
                layers = vec![Layer::new(line, Part::Item(layers))];
            }
            for key in rest.iter().rev() {
                let inner = Self(BTreeMap::from([(key.as_str(), layers)]));
                layers = vec![Layer::new(line, Part::Table(inner))];
            }
            table.0.entry(first).or_default().extend(layers);
        }
        Ok(table)
    }
}

/// A value as layers: each of several concatenated tables is a layer, and so is a value that may be one.
fn layers(node: &AstNode, line: usize, depth: usize) -> Result<Vec<Layer<'_>>, String> {
    let part = match node {
        AstNode::Concat { nodes, .. } if nodes.iter().any(is_table) => {
            let values = nodes.iter().filter(|node| !is_blank(node));
            let layers = values.map(|node| match node {
                AstNode::Object { .. } | AstNode::Substitution { .. } => Ok(Layer {
                    is_beside_table: true,
                    ..Layer::new(line, part(node, line, depth)?)
                }),
                _ => Err(at(line, MIXED)),
            });
            return layers.collect();
        }
        node => part(node, line, depth)?,
    };
    Ok(vec![Layer::new(line, part)])
}

fn part(node: &AstNode, line: usize, depth: usize) -> Result<Part<'_>, String> {
    Ok(match node {
        AstNode::Scalar { value, .. } if value.value_type == ScalarType::Null => Part::Null,
        AstNode::Scalar { value, .. } => Part::Text(&value.raw),
        AstNode::Array { items, .. } => {
            check_depth(depth + 1, line)?;
            let items = items.iter().map(|item| layers(item, line_of(item), depth + 1));
            Part::List(items.collect::<Result<_, _>>()?)
        }
        AstNode::Substitution { list_suffix: true, .. } => {
            return Err(at(line, "a list of variables, ${NAME[]}, is not known"));
        }
        AstNode::Substitution { segments, optional, .. } => {
            let path = segments.iter().map(|segment| segment.text.as_str()).collect();
            Part::Substitution { path, optional: *optional }
        }
        AstNode::Concat { nodes, .. } => {
            let parts = nodes.iter().map(|node| Ok((part(node, line, depth)?, is_blank(node))));
            Part::Several(parts.collect::<Result<_, String>>()?)
        }
        AstNode::Object { fields, .. } => Part::Table(Table::with(fields, depth)?),
        AstNode::Include { .. } => return Err(at(line, INCLUDE)),
    })
}

fn is_table(node: &AstNode) -> bool {
    matches!(node, AstNode::Object { .. })
}

fn is_blank(node: &AstNode) -> bool {
    matches!(node, AstNode::Scalar { separator: true, .. })
}

fn line_of(node: &AstNode) -> usize {
    match node {
        AstNode::Object { pos, .. }
        | AstNode::Array { pos, .. }
        | AstNode::Scalar { pos, .. }
        | AstNode::Concat { pos, .. }
        | AstNode::Substitution { pos, .. }
        | AstNode::Include { pos, .. } => pos.line,
    }
}
