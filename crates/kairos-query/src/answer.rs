//! The JSON of answers, byte for byte as KairosDB writes it.
//!
//! An answer with an error has nothing of the points: the caller drops what was written and answers with
//! [`render_errors`].

use std::borrow::Borrow;

use promkairos_kairos_json::error_answer;

use crate::error::QueryError;
use crate::eval::{self, Context, Group, GroupResult, Saved};
use crate::java_text;
use crate::limits::Limits;
use crate::meter::Meter;
use crate::plan::{GroupBy, MetricQuery};
use crate::point::{Point, Series, Tags, Value};

/// The answer to a query, metric after metric.
pub struct Answer<'a> {
    limits: &'a Limits,
    meter: Meter<'a>,
    out: Vec<u8>,
}

/// The answer to a question for names.
pub fn render_names<'n>(names: impl IntoIterator<Item = &'n str>) -> Vec<u8> {
    let mut out = b"{\"results\":[".to_vec();
    for (at, name) in names.into_iter().enumerate() {
        out.extend_from_slice(if at == 0 { b"" } else { b"," });
        java_text::write_text(&mut out, name);
    }
    out.extend_from_slice(b"]}");
    out
}

/// The answer to a query that failed.
pub fn render_errors(messages: &[String]) -> Vec<u8> {
    error_answer(messages.iter().map(String::as_str)).into_bytes()
}

impl<'a> Answer<'a> {
    /// An answer without metrics.
    pub fn new(limits: &'a Limits) -> Self {
        Self { limits, meter: Meter::default(), out: b"{\"queries\":[".to_vec() }
    }

    /// Calls `cover` with the bytes of the answer and of the points in memory, all together, before they grow.
    pub fn counted(self, cover: impl FnMut(usize) -> Result<(), QueryError> + 'a) -> Self {
        Self { meter: Meter::new(cover), ..self }
    }

    /// Evaluates a metric over the series that its tags mean, and returns the points that it saves.
    pub fn metric<'s>(
        &mut self,
        metric: &'s MetricQuery,
        series: impl IntoIterator<Item = Result<Series<'s>, QueryError>>,
    ) -> Result<Vec<Saved>, QueryError> {
        self.separate(b'[');
        self.text("{\"sample_size\":");
        let samples_at = self.out.len();
        self.text(",\"results\":[");
        let mut context = Context::new(self.limits, std::mem::take(&mut self.meter));
        for mut group in eval::groups(metric, series.into_iter(), &mut context)? {
            self.separate(b'[');
            self.group(metric, &mut group, &mut context)?;
        }
        self.text("]}");
        let mut samples = Vec::new();
        java_text::write_long(&mut samples, i64::try_from(context.samples).unwrap_or(i64::MAX));
        self.out.splice(samples_at..samples_at, samples);
        let (meter, saved) = context.end();
        self.meter = meter;
        Ok(saved)
    }

    /// Writes the tags of a metric, for `query/tags`.
    pub fn tags(
        &mut self,
        metric: &MetricQuery,
        tag_sets: impl IntoIterator<Item = impl Borrow<Tags>>,
    ) -> Result<(), QueryError> {
        let mut context = Context::new(self.limits, std::mem::take(&mut self.meter));
        let mut tags = eval::GroupTags::new();
        for own in tag_sets {
            context.pass()?;
            context.count_group(eval::add_tags(&mut tags, own.borrow()))?;
        }
        self.separate(b'[');
        self.text("{\"results\":[{\"name\":");
        java_text::write_text(&mut self.out, &metric.name);
        self.tag_values(&tags);
        self.text(",\"values\":[]}]}");
        context.count_answer(self.out.len())?;
        (self.meter, _) = context.end();
        Ok(())
    }

    /// The whole answer.
    pub fn finish(mut self) -> Vec<u8> {
        self.text("]}");
        self.out
    }

    fn group<'s>(
        &mut self,
        metric: &'s MetricQuery,
        group: &mut Group<'s>,
        context: &mut Context<'_>,
    ) -> Result<(), QueryError> {
        self.text("{\"name\":");
        java_text::write_text(&mut self.out, &metric.name);
        if !group.results.is_empty() {
            self.text(",\"group_by\":[");
            for result in &group.results {
                self.separate(b'[');
                self.result(result);
            }
            self.text("]");
        }
        if !metric.exclude_tags {
            self.tag_values(&group.tags);
        }
        self.text(",\"values\":[");
        context.count_answer(self.out.len())?;
        let mut points = eval::aggregate(metric, group, context)?;
        while let Some(point) = points.next(context)? {
            self.separate(b'[');
            self.point(&point)?;
            context.count_answer(self.out.len())?;
        }
        points.read_rest(context)?;
        self.text("]}");
        Ok(())
    }

    fn result(&mut self, result: &GroupResult<'_>) {
        match result {
            GroupResult::Type(group_type) => {
                self.text("{\"name\":\"type\",\"type\":\"");
                self.text(group_type.name());
                self.text("\"}");
            }
            GroupResult::Tag { tags, values } => {
                self.text("{\"name\":\"tag\",\"tags\":[");
                for tag in *tags {
                    self.separate(b'[');
                    java_text::write_text(&mut self.out, tag);
                }
                self.text("],\"group\":{");
                for (tag, value) in values {
                    self.separate(b'{');
                    java_text::write_text(&mut self.out, tag);
                    self.text(":");
                    java_text::write_text(&mut self.out, value);
                }
                self.text("}}");
            }
            GroupResult::Number(group_by, number) => self.numbered(group_by, *number),
        }
    }

    fn numbered(&mut self, group_by: &GroupBy, number: i32) {
        let mut name = "group_number";
        match group_by {
            GroupBy::Time { range_size, group_count, .. } => {
                self.text("{\"name\":\"time\",\"range_size\":{\"value\":");
                java_text::write_long(&mut self.out, range_size.value);
                self.text(",\"unit\":\"");
                self.text(range_size.unit.name());
                self.text("\"},\"group_count\":");
                java_text::write_long(&mut self.out, i64::from(*group_count));
            }
            GroupBy::Value { range_size } => {
                self.text("{\"name\":\"value\",\"range_size\":");
                java_text::write_long(&mut self.out, i64::from(*range_size));
            }
            GroupBy::Bin { bins } => {
                name = "bin_number";
                self.text("{\"name\":\"bin\",\"bins\":[");
                for bin in bins {
                    self.separate(b'[');
                    java_text::write_double(&mut self.out, *bin);
                }
                self.text("]");
            }
            // Tags have no numbers.
            GroupBy::Tag { .. } => self.text("{\"name\":\"tag\""),
        }
        self.text(",\"group\":{\"");
        self.text(name);
        self.text("\":");
        java_text::write_long(&mut self.out, i64::from(number));
        self.text("}}");
    }

    fn tag_values(&mut self, tags: &eval::GroupTags) {
        self.text(",\"tags\":{");
        for (name, values) in tags {
            self.separate(b'{');
            java_text::write_text(&mut self.out, &name.0);
            self.text(":[");
            for value in values {
                self.separate(b'[');
                java_text::write_text(&mut self.out, &value.0);
            }
            self.text("]");
        }
        self.text("}");
    }

    fn point(&mut self, point: &Point) -> Result<(), QueryError> {
        self.text("[");
        java_text::write_long(&mut self.out, point.time);
        self.text(",");
        match &point.value {
            Value::Long(value) => java_text::write_long(&mut self.out, *value),
            Value::Double(value) if value.is_finite() => {
                java_text::write_double(&mut self.out, *value);
            }
            Value::Double(value) => {
                let value = java_text::double(*value);
                let time = point.time;
                return Err(QueryError::Evaluation(format!(
                    "NaN or Infinity:{value} data point=DoubleDataPoint{{m_value={value}, \
                     m_timestamp={time}}}"
                )));
            }
            Value::Text(text) => java_text::write_text(&mut self.out, text),
            Value::Null => self.text("null"),
        }
        self.text("]");
        Ok(())
    }

    /// A comma, but not after an opening bracket.
    fn separate(&mut self, open: u8) {
        if self.out.last() != Some(&open) {
            self.out.push(b',');
        }
    }

    fn text(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }
}
