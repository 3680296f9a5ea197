//! The label endpoints: answered from the indexes alone, or from the names where no tag is asked for.
//!
//! Both are coarse, as the contract allows: in a window that closed only recently the index outlives a
//! delete of its points (see `delete`). So a deleted metric is listed until the window has closed and
//! is deleted again, or until its index rows expire.
//!
//! An answer is kept for a while (see `label_answers`). With a limit only the smallest results are kept
//! while reading, which bounds memory.

use std::time::Instant;

use crate::index::label_answers::Asked;
use crate::index::routing::route;
use crate::index::series_index::SeriesIndex;
use promkairos_kairos::DataType;
use promkairos_model::{Labels, METRIC_NAME};
use promkairos_storage::limited::Smallest;
use promkairos_storage::{Limited, Result, SeriesQuery};

impl SeriesIndex {
    /// The result of `read`, or a recent answer.
    async fn answer(
        &self,
        label: Option<&str>,
        query: &SeriesQuery,
        read: impl Future<Output = Result<Limited<String>>>,
    ) -> Result<Limited<String>> {
        let (asked, begun) =
            (Asked::new(label, query, self.spec), self.answers.begin(Instant::now()));
        if let Some(answer) = self.answers.get(&asked, begun) {
            self.cql.executor.metrics.label_answer_hits.inc();
            return Ok(answer);
        }
        let answer = read.await?;
        self.answers.keep(asked, begun, &answer);
        Ok(answer)
    }

    /// [`Store::series`](promkairos_storage::Store::series)
    pub(crate) async fn series(&self, query: &SeriesQuery) -> Result<Limited<Labels>> {
        let mut all = Smallest::new(query.limit);
        self.scan(&query.matchers, query.range, DataType::holds_points, &mut |row, _| {
            // Rows come in the order of windows, so a smaller label set may follow a greater one.
            let _ = all.add(row.labels.clone());
            Ok(())
        })
        .await?;
        Ok(all.finish())
    }

    /// [`Store::label_names`](promkairos_storage::Store::label_names)
    pub(crate) async fn label_names(&self, query: &SeriesQuery) -> Result<Limited<String>> {
        self.answer(None, query, self.read_label_names(query)).await
    }

    async fn read_label_names(&self, query: &SeriesQuery) -> Result<Limited<String>> {
        let mut all = Smallest::new(query.limit);
        self.scan(&query.matchers, query.range, DataType::holds_points, &mut |row, _| {
            let _ = row.labels.iter().try_for_each(|(name, _)| all.add_text(name));
            Ok(())
        })
        .await?;
        Ok(all.finish())
    }

    /// [`Store::label_values`](promkairos_storage::Store::label_values)
    pub(crate) async fn label_values(
        &self,
        name: &str,
        query: &SeriesQuery,
    ) -> Result<Limited<String>> {
        self.answer(Some(name), query, self.read_label_values(name, query)).await
    }

    async fn read_label_values(&self, name: &str, query: &SeriesQuery) -> Result<Limited<String>> {
        if name == METRIC_NAME && route(&query.matchers).tags.is_empty() {
            let names = self.names_in(&query.matchers, query.range).await?;
            return Ok(Limited::first(names, query.limit));
        }
        let mut all = Smallest::new(query.limit);
        self.scan(&query.matchers, query.range, DataType::holds_points, &mut |row, _| {
            let value = row.labels.get(name);
            if !value.is_empty() {
                let _ = all.add_text(value);
            }
            Ok(())
        })
        .await?;
        Ok(all.finish())
    }
}
