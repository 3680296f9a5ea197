//! `label_replace` and `label_join`: change labels and keep the points.

use regex::Regex;
use tokio::runtime::Handle;

use super::elementwise::Mapped;
use super::merged::Merged;
use super::{BoxOperator, Series};
use crate::ast::StringLiteral;
use crate::context::Context;
use crate::error::QueryError;
use crate::labelset::with;
use crate::series_list::SeriesList;
use promkairos_model::limits::{MAX_QUERY_LABEL_VALUE_BYTES, NO_SETTING};
use promkairos_model::{Labels, METRIC_NAME, RegexError, ShownSize};

/// A value is longer than a query may make one.
#[derive(Debug, PartialEq, Eq)]
struct TooLong;

/// Sets the label `name` of each series to the value that `value` returns, if it returns one.
fn relabel(
    input: BoxOperator,
    name: &str,
    context: &Context,
    value: impl Fn(&Labels) -> Result<Option<String>, TooLong>,
) -> Result<BoxOperator, QueryError> {
    let mut series = SeriesList::new(input.series().len(), &context.budget)?;
    for one in input.series() {
        context.check()?;
        let value = value(&one.labels).map_err(|TooLong| {
            let limit = ShownSize::of(MAX_QUERY_LABEL_VALUE_BYTES);
            let what = format!("value of label {name} of more than {limit}; {NO_SETTING}");
            QueryError::Execution(what)
        })?;
        match value {
            Some(value) => {
                let labels = with(&one.labels, name, &value)?;
                // If the name was set, it is not the name that should be dropped.
                let drop_name = one.drop_name && name != METRIC_NAME;
                series.push_made(Series { labels, drop_name })?;
            }
            None => series.push_shared(one.clone())?,
        }
    }
    Merged::of(Mapped::relabeled(input, series), &context.budget)
}

/// `label_replace(input, name, template, source, pattern)`
pub(crate) fn label_replace(
    input: BoxOperator,
    [name, template, source, pattern]: [&StringLiteral; 4],
    context: &Context,
    runtime: &Handle,
) -> Result<BoxOperator, QueryError> {
    let pattern = &pattern.value;
    let mut held = context.budget.nothing();
    let (compiler, deadline) = (&context.regex_compiler, context.compile_deadline());
    let compiled = compiler.groups(pattern, &mut held, &deadline, runtime)?;
    let regex = compiled.map_err(|error| match error {
        RegexError::TooLarge { .. } => QueryError::Execution(error.to_string()),
        _ => {
            let text = format!("invalid regular expression in label_replace(): {pattern}");
            QueryError::Execution(text)
        }
    })?;
    check_name(name, "destination", "label_replace")?;
    let value = |labels: &Labels| expand(&regex, &template.value, labels.get(&source.value));
    relabel(input, &name.value, context, value)
}

/// `label_join(input, name, separator, source…)`
pub(crate) fn label_join(
    input: BoxOperator,
    name: &StringLiteral,
    separator: &StringLiteral,
    sources: &[&StringLiteral],
    context: &Context,
) -> Result<BoxOperator, QueryError> {
    for source in sources {
        check_name(source, "source", "label_join")?;
    }
    check_name(name, "destination", "label_join")?;
    relabel(input, &name.value, context, |labels| {
        let values: Vec<&str> = sources.iter().map(|source| labels.get(&source.value)).collect();
        let separators = separator.value.len() * values.len().saturating_sub(1);
        match values.iter().map(|value| value.len()).sum::<usize>() + separators {
            0..=MAX_QUERY_LABEL_VALUE_BYTES => Ok(Some(values.join(&separator.value))),
            _ => Err(TooLong),
        }
    })
}

fn check_name(name: &StringLiteral, which: &str, function: &str) -> Result<(), QueryError> {
    if name.value.is_empty() || name.not_utf8.is_some() {
        let name = &name.value;
        let text = format!("invalid {which} label name in {function}(): {name}");
        return Err(QueryError::Execution(text));
    }
    Ok(())
}

/// The template expanded with the groups that the pattern matched in `value`; `None` without a
/// match. As in Go, `$1x` is the group named `1x`, an unknown group is empty, `$$` is a dollar.
fn expand(regex: &Regex, template: &str, value: &str) -> Result<Option<String>, TooLong> {
    let Some(found) = regex.captures(value) else { return Ok(None) };
    let group = |name: &str| match name.parse::<usize>() {
        // Go treats `01` as a name.
        Ok(number) if number.to_string() == name => found.get(number),
        _ => found.name(name),
    };
    let mut out = String::new();
    let mut rest = template;
    while let Some(at) = rest.find('$') {
        if out.len() > MAX_QUERY_LABEL_VALUE_BYTES {
            return Err(TooLong);
        }
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = reference(rest) {
            out.push_str(group(name).map_or("", |found| found.as_str()));
            rest = after;
        } else {
            out.push('$');
        }
    }
    out.push_str(rest);
    if out.len() > MAX_QUERY_LABEL_VALUE_BYTES { Err(TooLong) } else { Ok(Some(out)) }
}

/// The name in a group reference, and the text after the reference.
fn reference(text: &str) -> Option<(&str, &str)> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    if let Some(inner) = text.strip_prefix('{') {
        let (name, after) = inner.split_once('}')?;
        return (!name.is_empty() && name.chars().all(is_word)).then_some((name, after));
    }
    let end = text.find(|c| !is_word(c)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use promkairos_model::anchored_re2;
    use promkairos_model::limits::MAX_REGEX_BYTES;

    #[test]
    fn templates_are_those_of_go() {
        let check = |pattern: &str, template: &str, value: &str, want: Option<&str>| {
            let regex = anchored_re2(pattern, MAX_REGEX_BYTES).expect("valid");
            let found = expand(&regex, template, value).expect("short");
            assert_eq!(found.as_deref(), want, "{pattern} {template}");
        };
        check("(.*)-(.*)", "$2:$1", "a-b", Some("b:a"));
        check("(.*)", "$1x${1}x$$", "a", Some("ax$"));
        check("(?P<n>.*)", "$n|${n}|$m|$", "a", Some("a|a||$"));
        check("(.*)", "${1|$01|$", "a", Some("${1||$"));
        check("a", "b", "ab", None);
        check("a.b", "x", "a\nb", Some("x"));
        let regex = anchored_re2("(.*)", MAX_REGEX_BYTES).expect("valid");
        let half = "x".repeat(MAX_QUERY_LABEL_VALUE_BYTES / 2);
        assert!(expand(&regex, "$1$1", &half).is_ok());
        assert_eq!(expand(&regex, "$1$1.", &half), Err(TooLong));
    }
}
