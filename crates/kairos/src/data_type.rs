//! The data types of rows, and the index that a row of each type is found by.
//!
//! KairosDB reads only index rows with `table_name = 'data_points'`, so rows of types that it
//! cannot display are indexed under `'prometheus'`: see `docs/FORMAT.md`.

use std::fmt;

use promkairos_model::Value;

/// `table_name` of the index tables: the programs that can find a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TableName {
    /// KairosDB and promkairos.
    DataPoints,
    /// promkairos alone.
    Prometheus,
}

impl TableName {
    /// Both table names.
    pub const ALL: [Self; 2] = [Self::DataPoints, Self::Prometheus];

    /// The text in the tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DataPoints => "data_points",
            Self::Prometheus => "prometheus",
        }
    }

    /// The table name with this text.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|name| name.as_str() == text)
    }
}

/// The type of all cells in a row.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DataType {
    /// Numbers from before KairosDB 1.0; the column distinguishes long from float.
    Legacy,
    /// 64-bit integers.
    Long,
    /// Doubles, usually finite.
    Double,
    /// Text: not a number, so not visible in Prometheus.
    String,
    /// Our type: doubles that KairosDB cannot display.
    PromDouble,
    /// Our type: native histograms.
    PromHistogram,
    /// Our type: exemplars.
    PromExemplar,
    /// A type of any other plug-in: skipped.
    Other(Box<str>),
}

impl DataType {
    /// All types but [`Self::Other`].
    pub const KNOWN: [Self; 7] = [
        Self::Legacy,
        Self::Long,
        Self::Double,
        Self::String,
        Self::PromDouble,
        Self::PromHistogram,
        Self::PromExemplar,
    ];

    /// The type with this name.
    pub fn parse(name: &str) -> Self {
        let known = Self::KNOWN.into_iter().find(|known| known.as_str() == name);
        known.unwrap_or_else(|| Self::Other(name.into()))
    }

    /// Its name in the tables.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Legacy => "kairos_legacy",
            Self::Long => "kairos_long",
            Self::Double => "kairos_double",
            Self::String => "kairos_string",
            Self::PromDouble => "prom_double",
            Self::PromHistogram => "prom_histogram",
            Self::PromExemplar => "prom_exemplar",
            Self::Other(name) => name,
        }
    }

    /// The data type of the row for a point.
    pub fn of(value: &Value) -> Self {
        match value {
            Value::Float(value) => Self::of_float(*value),
            Value::Histogram(_) => Self::PromHistogram,
        }
    }

    /// The data type of the row for a float. KairosDB displays finite floats, and answers 500 to
    /// any query that reads another.
    pub fn of_float(value: f64) -> Self {
        if value.is_finite() { Self::Double } else { Self::PromDouble }
    }

    /// The index that lists rows of this type.
    pub fn table_name(&self) -> TableName {
        match self {
            Self::PromDouble | Self::PromHistogram | Self::PromExemplar => TableName::Prometheus,
            Self::Legacy | Self::Long | Self::Double | Self::String | Self::Other(_) => {
                TableName::DataPoints
            }
        }
    }

    /// Whether the cells are points of a series: numbers or histograms.
    pub fn holds_points(&self) -> bool {
        match self {
            Self::Legacy | Self::Long | Self::Double | Self::PromDouble | Self::PromHistogram => {
                true
            }
            Self::String | Self::PromExemplar | Self::Other(_) => false,
        }
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use promkairos_model::STALE_NAN_BITS;

    #[test]
    fn names_both_ways() {
        for known in DataType::KNOWN {
            assert_eq!(DataType::parse(known.as_str()), known);
            assert_eq!(
                known.table_name() == TableName::Prometheus,
                known.as_str().starts_with("prom_")
            );
        }
        assert_eq!(DataType::parse("kairos_complex").as_str(), "kairos_complex");
        for table in TableName::ALL {
            assert_eq!(TableName::parse(table.as_str()), Some(table));
        }
        assert_eq!(TableName::parse("spec"), None);
    }

    #[test]
    fn what_kairosdb_cannot_show_goes_to_rows_of_ours() {
        for shown in [0.0, -0.0, 1.5, f64::MAX, f64::MIN_POSITIVE, 5e-324] {
            assert_eq!(DataType::of(&Value::Float(shown)), DataType::Double, "{shown}");
        }
        for hidden in [f64::NAN, f64::from_bits(STALE_NAN_BITS), f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(DataType::of(&Value::Float(hidden)), DataType::PromDouble, "{hidden}");
        }
    }
}
