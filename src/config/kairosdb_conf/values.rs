//! Resolves the values of a HOCON text: merged tables, substitutions, `+=` and concatenation.
//!
//! Only values that are asked for are resolved: others may name variables that this process does not
//! have. Depth and size of the results are bounded, because a few lines that refer to each other can
//! expand to gigabytes. The caller passes the environment.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::layers::{Layer, MIXED, MOST_DEPTH, Part, Table, at};

/// Most nested steps to a value: two for each table or list, and one for each substitution.
const MOST_STEPS: usize = 3 * MOST_DEPTH;

/// Most values and bytes that resolving may add to what the file contains itself.
const MOST_MADE: usize = 1 << 20;

/// Steps allowed for each byte of the text: without references a byte belongs to one key or value.
const STEPS_OF_BYTE: usize = 4;

/// A value and its position.
#[derive(Debug, Clone)]
pub(super) struct Value<'a> {
    /// The line of its key, or of an item of a list; of several lines the last.
    pub(super) line: usize,
    /// Values and bytes, including nested ones.
    size: usize,
    /// Depth of nested values.
    depth: usize,
    kind: Rc<Kind<'a>>,
}

#[derive(Debug)]
enum Kind<'a> {
    Null,
    Text(String),
    List(Vec<Value<'a>>),
    Table(BTreeMap<&'a str, Value<'a>>),
}

impl<'a> Value<'a> {
    pub(super) fn is_null(&self) -> bool {
        matches!(*self.kind, Kind::Null)
    }

    /// A text, a number or a boolean, as it is written.
    pub(super) fn text(&self) -> Option<&str> {
        if let Kind::Text(text) = &*self.kind { Some(text) } else { None }
    }

    pub(super) fn list(&self) -> Option<&[Self]> {
        if let Kind::List(items) = &*self.kind { Some(items) } else { None }
    }

    pub(super) fn table(&self) -> Option<&BTreeMap<&'a str, Self>> {
        if let Kind::Table(table) = &*self.kind { Some(table) } else { None }
    }

    /// The form of a text or a null within a concatenation.
    fn as_written(&self) -> Option<&str> {
        if self.is_null() { Some("null") } else { self.text() }
    }

    fn new(line: usize, kind: Kind<'a>) -> Result<Self, String> {
        let (size, depth) = match &kind {
            Kind::Null => (0, 0),
            Kind::Text(text) => (text.len(), 0),
            Kind::List(items) => sum(items.iter()),
            Kind::Table(table) => sum(table.values()),
        };
        if depth > MOST_DEPTH {
            return Err(too_deep(line));
        }
        Ok(Self { line, size: size + 1, depth, kind: Rc::new(kind) })
    }
}

/// The sum of the sizes, and one more than the greatest depth.
fn sum<'v, 'a: 'v>(values: impl Iterator<Item = &'v Value<'a>>) -> (usize, usize) {
    values.fold((0, 1), |(size, depth), value| (size + value.size, depth.max(value.depth + 1)))
}

fn too_deep(line: usize) -> String {
    at(
        line,
        format_args!("more than {MOST_DEPTH} substitutions, tables and lists within each other"),
    )
}

/// Resolves values of one text.
pub(super) struct Values<'a, 'e> {
    root: &'a Table<'a>,
    /// Returns the value of a variable.
    variable: &'e dyn Fn(&str) -> Option<String>,
    /// The values being resolved, outermost first.
    open: Vec<Open<'a>>,
    /// Number of items resolved so far.
    items: usize,
    /// Depth of nested steps.
    steps: usize,
    /// Values and bytes that may still be added.
    left: usize,
}

/// A step on the path from the top to a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step<'a> {
    Key(&'a str),
    /// An item, by a unique number; no reference can name one.
    Item(usize),
}

/// A key that is being resolved: a reference to it meanwhile gets its earlier value.
struct Open<'a> {
    path: Vec<Step<'a>>,
    below: Stack<'a>,
}

/// The layers of a key, the last on top. Cheap to clone.
#[derive(Clone)]
struct Stack<'a> {
    all: Rc<[Said<'a>]>,
    /// Only layers before this index count.
    end: usize,
}

#[derive(Clone)]
enum Said<'a> {
    InText(&'a Layer<'a>),
    Made(Value<'a>),
}

impl<'a> Stack<'a> {
    fn of(layers: &'a [Layer<'a>]) -> Self {
        Self::from(layers.iter().map(Said::InText).collect::<Vec<_>>())
    }

    fn of_last_first(mut said: Vec<Said<'a>>) -> Self {
        said.reverse();
        Self::from(said)
    }

    fn said(&self) -> &[Said<'a>] {
        &self.all[..self.end]
    }

    fn below(&self, at: usize) -> Self {
        Self { all: self.all.clone(), end: at }
    }
}

impl<'a> From<Vec<Said<'a>>> for Stack<'a> {
    fn from(said: Vec<Said<'a>>) -> Self {
        Self { end: said.len(), all: said.into() }
    }
}

/// A value, if there is one.
type Found<'a> = Result<Option<Value<'a>>, String>;

/// The layers of the keys of a table, the last first.
type Keys<'a> = BTreeMap<&'a str, Vec<Said<'a>>>;

/// The result of merging layers.
enum Gathered<'a> {
    Nothing,
    Value(Value<'a>),
    /// A table: its line, and its keys, which are not resolved.
    Table(usize, Keys<'a>),
}

impl<'a, 'e> Values<'a, 'e> {
    /// `bytes` is the length of the text.
    pub(super) fn new(
        root: &'a Table<'a>,
        bytes: usize,
        variable: &'e dyn Fn(&str) -> Option<String>,
    ) -> Self {
        let left = bytes.saturating_mul(STEPS_OF_BYTE).saturating_add(MOST_MADE);
        Self { root, variable, open: Vec::new(), items: 0, steps: 0, left }
    }

    /// The resolved value of a path from the top, if any.
    pub(super) fn get(&mut self, path: &[&'a str]) -> Found<'a> {
        self.lookup(path, 1)
    }

    /// `line` is for errors, here and in the functions below.
    fn lookup(&mut self, keys: &[&'a str], line: usize) -> Found<'a> {
        let path: Vec<_> = keys.iter().copied().map(Step::Key).collect();
        if self.is_around_itself(&path) {
            return Ok(None);
        }
        let Some(said) = keys.first().and_then(|first| self.root.0.get(first)) else {
            return Ok(None);
        };
        let mut stack = Stack::of(said);
        for (at, key) in keys.iter().enumerate().skip(1) {
            let above = self.gather(&stack, &path[..at], Some(key), line)?;
            let Gathered::Table(_, mut keys) = above else { return Ok(None) };
            stack = Stack::of_last_first(keys.remove(key).unwrap_or_default());
        }
        self.value(&stack, &path, line)
    }

    /// Whether a table would contain itself: a key within the table is being resolved, and nothing else was said
    /// of that key.
    fn is_around_itself(&self, path: &[Step<'a>]) -> bool {
        let is_within = |open: &Open<'_>| {
            open.path.len() > path.len()
                && open.path.starts_with(path)
                && open.below.said().is_empty()
        };
        self.open.iter().any(is_within) && self.open.iter().all(|open| open.path != path)
    }

    fn value(&mut self, stack: &Stack<'a>, path: &[Step<'a>], line: usize) -> Found<'a> {
        self.step(line, |values| match values.gather(stack, path, None, line)? {
            Gathered::Nothing => Ok(None),
            Gathered::Value(value) => Ok(Some(value)),
            Gathered::Table(line, keys) => values.table(line, keys, path).map(Some),
        })
    }

    fn table(
        &mut self,
        line: usize,
        keys: Keys<'a>,
        path: &[Step<'a>],
    ) -> Result<Value<'a>, String> {
        let mut table = BTreeMap::new();
        for (key, said) in keys {
            let stack = Stack::of_last_first(said);
            if let Some(value) = self.value(&stack, &[path, &[Step::Key(key)]].concat(), line)? {
                table.insert(key, value);
            }
        }
        Value::new(line, Kind::Table(table))
    }

    /// Merges from the last layer down to the first that hides the rest: a text or a list. If only one
    /// key of a table is asked for, no other key is merged.
    fn gather(
        &mut self,
        stack: &Stack<'a>,
        path: &[Step<'a>],
        only: Option<&str>,
        line: usize,
    ) -> Result<Gathered<'a>, String> {
        let open = self.open.iter().rev().find(|open| open.path == path);
        let stack = open.map_or(stack, |open| &open.below).clone();
        self.spend(1 + stack.said().len(), line)?;
        if let ([Said::Made(value)], None) = (stack.said(), only) {
            self.spend(value.size, line)?;
            return Ok(Gathered::Value(value.clone()));
        }
        let mut table: Option<(usize, Keys<'a>)> = None;
        for (at, said) in stack.said().iter().enumerate().rev() {
            let value = match said {
                Said::InText(Layer { line, part: Part::Table(said), .. }) => {
                    add(&mut table.get_or_insert_with(|| (*line, Keys::new())).1, said, only);
                    continue;
                }
                // Together with the layers below, of whatever kind, it is a list.
                Said::InText(Layer { line, part: Part::Item(_), .. }) => match table {
                    Some(_) => break,
                    None => return self.appended(&stack, at, path, *line).map(Gathered::Value),
                },
                Said::InText(layer) => self.said(layer, path, stack.below(at))?,
                Said::Made(value) => Some(value.clone()),
            };
            let Some(value) = value else { continue };
            match (&*value.kind, &mut table) {
                (Kind::Table(made), table) => {
                    let (_, keys) = table.get_or_insert_with(|| (value.line, Keys::new()));
                    for (key, value) in made {
                        if only.is_none_or(|only| only == *key) {
                            keys.entry(key).or_default().push(Said::Made(value.clone()));
                        }
                    }
                }
                (_, None) => return Ok(Gathered::Value(value)),
                (_, Some(_)) => break,
            }
        }
        Ok(table.map_or(Gathered::Nothing, |(line, keys)| Gathered::Table(line, keys)))
    }

    /// The list that `+=` adds to, from the layer at `last` down to an earlier list, if any.
    fn appended(
        &mut self,
        stack: &Stack<'a>,
        last: usize,
        path: &[Step<'a>],
        line: usize,
    ) -> Result<Value<'a>, String> {
        let mut items = Vec::new();
        for at in (0..=last).rev() {
            let value = match &stack.said()[at] {
                Said::InText(layer) => {
                    let value = self.said(layer, path, stack.below(at))?;
                    if let Part::Item(_) = layer.part {
                        items.extend(value);
                        continue;
                    }
                    value
                }
                Said::Made(value) => Some(value.clone()),
            };
            if let Some(value) = value {
                let first = value.list().ok_or_else(|| self::at(line, "+= to what is no list"))?;
                items.extend(first.iter().rev().cloned());
                break;
            }
        }
        items.reverse();
        self.spend(items.len(), line)?;
        Value::new(line, Kind::List(items))
    }

    /// The value of one layer. A reference to its key meanwhile gets the layers below.
    fn said(&mut self, layer: &'a Layer<'a>, path: &[Step<'a>], below: Stack<'a>) -> Found<'a> {
        self.open.push(Open { path: path.to_vec(), below });
        let value = self.step(layer.line, |values| values.part(&layer.part, path, layer.line));
        self.open.pop();
        let value = value?.map(|value| Value { line: layer.line, ..value });
        match &value {
            Some(value) if layer.is_beside_table && value.table().is_none() => {
                Err(at(layer.line, MIXED))
            }
            _ => Ok(value),
        }
    }

    fn part(&mut self, part: &'a Part<'a>, path: &[Step<'a>], line: usize) -> Found<'a> {
        match part {
            Part::Null => Value::new(line, Kind::Null).map(Some),
            Part::Text(text) => self.text((*text).to_owned(), line).map(Some),
            Part::Table(said) => {
                let mut keys = Keys::new();
                add(&mut keys, said, None);
                self.table(line, keys, path).map(Some)
            }
            Part::List(items) => {
                let values = items.iter().map(|said| self.item(said, path, line));
                let values = values.filter_map(Result::transpose).collect::<Result<_, _>>()?;
                Value::new(line, Kind::List(values)).map(Some)
            }
            Part::Item(said) => self.item(said, path, line),
            Part::Substitution { path, optional } => {
                if let Some(value) = self.lookup(path, line)? {
                    return Ok(Some(value));
                }
                let name = path.join(".");
                match (self.variable)(&name) {
                    Some(value) => self.text(value, line).map(Some),
                    None if *optional => Ok(None),
                    None => Err(at(line, format_args!("there is no ${{{name}}}"))),
                }
            }
            Part::Several(parts) => self.several(parts, path, line),
        }
    }

    fn item(&mut self, said: &'a [Layer<'a>], path: &[Step<'a>], line: usize) -> Found<'a> {
        self.items += 1;
        self.value(&Stack::of(said), &[path, &[Step::Item(self.items)]].concat(), line)
    }

    /// Concatenates values to one list, one table or one text.
    fn several(
        &mut self,
        parts: &'a [(Part<'a>, bool)],
        path: &[Step<'a>],
        line: usize,
    ) -> Found<'a> {
        let mut values = Vec::with_capacity(parts.len());
        for (part, is_blank) in parts {
            let value = self.part(part, path, line)?;
            values.extend(value.map(|value| (value, *is_blank)));
        }
        let is_text = |(value, _): &(Value<'a>, bool)| value.as_written().is_some();
        if !values.iter().all(is_text) {
            values.retain(|(_, is_blank)| !is_blank);
        }
        let values: Vec<_> = values.into_iter().map(|(value, _)| value).collect();
        if let [] | [_] = &values[..] {
            return Ok(values.into_iter().next());
        }
        if let Some(texts) = all(&values, Value::as_written) {
            return self.text(texts.concat(), line).map(Some);
        }
        if let Some(lists) = all(&values, Value::list) {
            let items = lists.concat();
            self.spend(items.len(), line)?;
            return Value::new(line, Kind::List(items)).map(Some);
        }
        let tables = all(&values, Value::table).ok_or_else(|| at(line, MIXED))?;
        let mut keys = Keys::new();
        for (key, value) in tables.into_iter().rev().flatten() {
            keys.entry(key).or_default().push(Said::Made(value.clone()));
        }
        self.table(line, keys, path).map(Some)
    }

    fn text(&mut self, text: String, line: usize) -> Result<Value<'a>, String> {
        self.spend(text.len(), line)?;
        Value::new(line, Kind::Text(text))
    }

    fn step<T>(
        &mut self,
        line: usize,
        work: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        if self.steps == MOST_STEPS {
            return Err(too_deep(line));
        }
        self.steps += 1;
        let done = work(self);
        self.steps -= 1;
        done
    }

    fn spend(&mut self, amount: usize, line: usize) -> Result<(), String> {
        let left = self.left.checked_sub(amount);
        self.left = left.ok_or_else(|| at(line, "substitutions make too much of this file"))?;
        Ok(())
    }
}

/// Adds the statements of a table below those that `keys` has already.
fn add<'a>(keys: &mut Keys<'a>, table: &'a Table<'a>, only: Option<&str>) {
    for (key, said) in &table.0 {
        if only.is_none_or(|only| only == *key) {
            keys.entry(key).or_default().extend(said.iter().rev().map(Said::InText));
        }
    }
}

/// The results for all values, if every value has one.
fn all<'v, 'a, T>(
    values: &'v [Value<'a>],
    get: impl Fn(&'v Value<'a>) -> Option<T>,
) -> Option<Vec<T>> {
    values.iter().map(get).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::super::layers::syntax;
    use super::*;

    fn json(value: &Value<'_>) -> Json {
        let list = value.list().map(|items| items.iter().map(json).collect());
        let table = value.table().map(|table| table.iter().map(|(key, value)| (*key, json(value))));
        let table = table.map(|pairs| pairs.collect::<BTreeMap<_, _>>());
        list.or(table.map(|table| json!(table))).unwrap_or_else(|| json!(value.text()))
    }

    /// The resolved value of the key `r`.
    fn read(text: &str) -> Result<Option<Json>, String> {
        let syntax = syntax(text)?;
        let table = Table::of(&syntax)?.expect("no list");
        let variable = |name: &str| (name == "SET").then(|| "set".to_owned());
        let value = Values::new(&table, text.len(), &variable).get(&["r"])?;
        Ok(value.as_ref().map(json))
    }

    fn check(text: &str, want: Json) {
        assert_eq!(read(text), Ok(Some(want)), "{text}");
    }

    fn refused(text: &str, want: &str) {
        assert_eq!(read(text).expect_err(text), want, "{text}");
    }

    /// Expected values are what Typesafe Config 1.4.0, which KairosDB uses, reads.
    #[test]
    fn keys_and_values_are_read_as_kairosdb_reads_them() {
        check("r: a b  c # d\n// e\n", json!("a b  c"));
        check("r = \"a # b\" // c", json!("a # b"));
        check("r: \"\"\"a\n\"b\" \\n\"\"\"", json!("a\n\"b\" \\n"));
        check("r: \"\\u00e4 \\\" \\\\\"", json!("ä \" \\"));
        check("r: ключ\u{a0}x", json!("ключ\u{a0}x"));
        check("r.ä: 1", json!({"ä": "1"}));
        check("\u{feff}r: 010", json!("010"));
        check(
            "r: [1.50, true,\n null\n\"null\" <disabled>, ]",
            json!(["1.50", "true", null, "null <disabled>"]),
        );
        check(
            "{\"r\" : {\"a.b\": 1, \"c d\".e = 2, f { g: 3 }, h\n:\n4}}",
            json!({"a.b": "1", "c d": {"e": "2"}, "f": {"g": "3"}, "h": "4"}),
        );
        check("r: null ", json!(null));
        check("r: null x", json!("null x"));
        check("r.a.b: 1\nr { a { c: 2 } }\nr.a.b: 3", json!({"a": {"b": "3", "c": "2"}}));
        check("r { a: 1 }\nr: null\nr { b: 2 }", json!({"b": "2"}));
        check("r: [1] [2]\n", json!(["1", "2"]));
        check("r: { a: 1 } { b: 2,\na: 3 }", json!({"a": "3", "b": "2"}));
        check("r += a\nr += [b]\nr += { c: d }", json!(["a", ["b"], {"c": "d"}]));
        check("r: [a]\nr += b", json!(["a", "b"]));
    }

    /// Expected values as above.
    #[test]
    fn substitutions_come_to_what_kairosdb_makes_of_them() {
        check("r: ${a.b} d\na.b: c", json!("c d"));
        check("r: ${a}\":\"${\"b.c\"}\na: 1, \"b.c\": 2", json!("1:2"));
        check("r: ${SET}", json!("set"));
        check("r: ${?SET}", json!("set"));
        check("r: x\nr: ${?UNSET}", json!("x"));
        check("r: x\nr: ${?SET}", json!("set"));
        check("r: ${?UNSET} y", json!(" y"));
        check("r: [a, ${?UNSET}, ${?SET}]", json!(["a", "set"]));
        check("r { a: ${?UNSET}, b: 1 }", json!({"b": "1"}));
        check("r: ${a} [3]\na: [1, 2]", json!(["1", "2", "3"]));
        check("r: ${a} { c: 2 }\na: { b: 1, c: 1 }", json!({"b": "1", "c": "2"}));
        check("r: ${a} ${b}\na: { x: 1 }, b: { y: 2 }", json!({"x": "1", "y": "2"}));
        check("r: [a]\nr: ${r} [b]\nr: ${r} [c]", json!(["a", "b", "c"]));
        check("r.p: a\nr.p: ${r.p}\":b\"", json!({"p": "a:b"}));
        check("r: ${a}\na: 1\na: 2", json!("2"));
        check("r: ${a}\na: ${b}\nb: 1\na: ${?UNSET}", json!("1"));
        check("r { a: 1, b: ${r.a} }\nr.a: 2", json!({"a": "2", "b": "2"}));
        check("r: ${a}\nr.x: ${r.y}\na: { x: 1, y: 2 }", json!({"x": "2", "y": "2"}));
        assert_eq!(read("r: ${?r}"), Ok(None));
    }

    #[test]
    fn only_what_is_asked_for_is_worked_out() {
        check("r: ${a.b}, a: { b: 1, c: ${UNSET} }, s: ${UNSET}", json!("1"));
    }

    #[test]
    fn what_has_no_value_names_its_line() {
        refused("\nr: ${UNSET}", "line 2: there is no ${UNSET}");
        refused("\nr: ${a}\na: ${r}", "line 3: there is no ${r}");
        refused("r: [\n{ x: ${r} }]", "line 2: there is no ${r}");
        refused(
            "r: {a: 1}\nr: [1] ${SET}",
            "line 2: a text, a list or a table stands beside another of these",
        );
        refused(
            "r: ${SET} { a: 1 }",
            "line 1: a text, a list or a table stands beside another of these",
        );
        refused("r: a\nr += b", "line 2: += to what is no list");
        refused("r: ${a[]}", "line 1: a list of variables, ${NAME[]}, is not known");
    }

    #[test]
    fn what_is_no_hocon_names_line_and_column_and_no_value() {
        refused("r: 1\nr: \"a", "line 2, column 4: is not HOCON");
        refused("r: s3cret+x", "line 1, column 10: is not HOCON");
        refused("r: ${b-${c}}", "line 1, column 8: is not HOCON");
        refused("r: ${\n}", "line 1, column 4: is not HOCON");
        refused("r:\n", "line 2, column 1: is not HOCON");
        refused("r..b: 1", "line 1, column 3: is not HOCON");
        for text in ["r {\na: 1", "r: [\n1}", "\n}"] {
            let line = if text == "\n}" { 2 } else { 1 };
            refused(
                text,
                &format!("is not HOCON: a brace or bracket of line {line} has no other half"),
            );
        }
        for text in [
            "include \"a.conf\"",
            "r { include required(file(\"/etc/passwd\")) }",
            "r: [{ include url(\"http://a/\") }]",
        ] {
            assert_eq!(read(text).expect_err(text).split(' ').next(), Some("line"), "{text}");
        }
        refused("a: 1\nr { include \"a.conf\" }", "line 2: an include, which is not followed");
    }

    /// Depth and size are bounded, even if a few lines refer to each other.
    #[test]
    fn a_small_file_stays_small() {
        let deep = |depth: usize| read(&("r".to_owned() + &".a".repeat(depth) + ": 1"));
        deep(99).expect("not too deep");
        assert_eq!(
            deep(100).expect_err("too deep"),
            "line 1: more than 100 tables and lists within each other"
        );
        deep(100_000).expect_err("too deep");
        let lists = |depth: usize| read(&format!("r: {}{}", "[".repeat(depth), "]".repeat(depth)));
        lists(99).expect("not too deep");
        lists(100).expect_err("too deep");
        let chain = |links: usize| {
            let links: String = (0..links).map(|at| format!("a{at}: ${{a{}}}\n", at + 1)).collect();
            read(&format!("r: ${{a0}}\n{links}a: 1")).expect_err("no end")
        };
        assert_eq!(chain(50), "line 51: there is no ${a50}");
        let too_deep = "more than 100 substitutions, tables and lists within each other";
        assert!(chain(10_000).ends_with(too_deep), "{}", chain(10_000));
        let doubled = |text: &str, times: usize| read(&format!("r: [x]\n{}", text.repeat(times)));
        let too_much = "substitutions make too much of this file";
        for text in ["r: ${r} ${r}\n", "r: [${r}, ${r}]\n", "r: [{ a: ${r}, b: ${r} }]\n"] {
            doubled(text, 5).expect("few");
            let refused = doubled(text, 30).expect_err("many");
            assert!(refused.ends_with(too_much), "{refused}");
        }
        // Many references that do not grow are fine.
        doubled("r += x\n", 5_000).expect("a list");
        doubled("r: ${?UNSET}\n", 5_000).expect("a list");
        read(&"r.a.b.c.d: ${SET}\nr.a.b.e: []\n".repeat(5_000)).expect("a table");
    }
}
