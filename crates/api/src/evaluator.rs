//! The query engine and its options, according to the current settings.
//!
//! Changed settings create a new evaluator. Running and waiting queries keep the one they started
//! with; new queries use the new limits and share no memory or permits with old ones.

use std::sync::Arc;
use std::time::Duration;

use super::settings::{Language, QueryConfig, TypeAndUnitLabels};
use promkairos_promql::{
    CounterSign, Engine, Features, NameRemoval, Names, QueryMemory, RegexCompiler, Settings,
    StartTimestamps, Syntax,
};

/// How queries are evaluated.
pub(super) struct Evaluator {
    /// The engine.
    pub(super) engine: Engine,
    /// The enabled language features.
    pub(super) syntax: Syntax,
    /// Queries that take longer are logged.
    pub(super) slow: Duration,
}

impl Default for Evaluator {
    fn default() -> Self {
        Self::new(Settings::default(), Features::Stable, Duration::MAX)
    }
}

impl Evaluator {
    pub(super) fn new(settings: Settings, syntax: impl Into<Syntax>, slow: Duration) -> Self {
        Self { engine: Engine::new(settings), syntax: syntax.into(), slow }
    }

    /// A new evaluator with different limits and language; `None` if nothing changes.
    pub(super) fn configured(&self, config: &QueryConfig) -> Option<Self> {
        let features = match config.language {
            Language::Stable => Features::Stable,
            Language::Experimental => Features::Experimental,
        };
        let names = if config.unquoted_names { Names::Unicode } else { Names::Ascii };
        let syntax = Syntax { features, names };
        let name_removal = match config.delayed_names {
            true => NameRemoval::Delayed,
            false => NameRemoval::AtOnce,
        };
        let start_timestamps = match config.start_timestamps {
            true => StartTimestamps::Used,
            false => StartTimestamps::Ignored,
        };
        let before = self.engine.settings();
        let settings = Settings {
            max_samples: config.max_samples,
            max_duration: config.max_duration,
            max_series: config.max_series,
            max_samples_read: config.max_samples_read,
            max_bytes: config.max_memory,
            timeout: config.timeout,
            max_depth: config.max_depth,
            max_concurrent: config.max_concurrency,
            max_queue: config.max_queue,
            lookback: config.lookback_delta,
            name_removal,
            start_timestamps,
            ..before.clone()
        };
        let same = settings == *before && syntax == self.syntax && config.slow == self.slow;
        (!same).then(|| Self::new(settings, syntax, config.slow))
    }

    /// A new evaluator whose queries share this memory budget and this compiler of regular expressions.
    pub(super) fn within(&self, memory: Arc<QueryMemory>, compiler: RegexCompiler) -> Self {
        let regex_compiler = Arc::new(compiler);
        let settings = Settings { memory, regex_compiler, ..self.engine.settings().clone() };
        Self::new(settings, self.syntax, self.slow)
    }

    /// A new evaluator that recognizes counters by the type label, if types become labels.
    pub(super) fn typed(&self, labels: TypeAndUnitLabels) -> Self {
        let counter_sign = match labels {
            TypeAndUnitLabels::Enabled => CounterSign::Type,
            TypeAndUnitLabels::Disabled => CounterSign::Name,
        };
        let settings = Settings { counter_sign, ..self.engine.settings().clone() };
        Self::new(settings, self.syntax, self.slow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_settings_make_another_and_the_same_do_not() {
        let config = QueryConfig {
            timeout: Duration::from_secs(1),
            max_samples: 2,
            max_duration: Duration::from_secs(9),
            max_series: 10,
            max_samples_read: 11,
            max_memory: 3,
            max_concurrency: 4,
            max_queue: 5,
            max_depth: 6,
            lookback_delta: Duration::from_secs(7),
            slow: Duration::from_secs(8),
            language: Language::Experimental,
            delayed_names: true,
            start_timestamps: true,
            unquoted_names: true,
        };
        let typed = Evaluator::default().typed(TypeAndUnitLabels::Enabled);
        let made = typed.configured(&config).expect("others");
        let settings = made.engine.settings();
        let want = Settings {
            timeout: config.timeout,
            max_samples: 2,
            max_duration: config.max_duration,
            max_series: 10,
            max_samples_read: 11,
            max_bytes: 3,
            memory: Arc::clone(&settings.memory),
            regex_compiler: Arc::clone(&settings.regex_compiler),
            max_concurrent: 4,
            max_queue: 5,
            max_depth: 6,
            lookback: config.lookback_delta,
            name_removal: NameRemoval::Delayed,
            start_timestamps: StartTimestamps::Used,
            counter_sign: CounterSign::Type,
            ..Settings::default()
        };
        assert_eq!(*settings, want);
        let syntax = Syntax { features: Features::Experimental, names: Names::Unicode };
        assert_eq!((made.syntax, made.slow), (syntax, config.slow));
        assert!(made.configured(&config).is_none(), "nothing is different");
        let slower = QueryConfig { slow: Duration::from_secs(9), ..config };
        assert_eq!(made.configured(&slower).expect("another").slow, slower.slow);
    }
}
