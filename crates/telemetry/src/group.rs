//! A group of metrics: each is declared once, with its field, its name, its unit and its help.

/// Labels of a metric without labels that may be absent.
pub(super) type NoLabels = [(&'static str, &'static str); 0];

/// Declares a group: the struct, its default, and `register_all`, which registers the metrics in the order of the
/// declaration. The help documents the field. Fields behind `with` are not registered there.
macro_rules! metrics {
    (
        $(#[$meta:meta])*
        $group:ident {
            $(
                $(#[$doc:meta])*
                $vis:vis $field:ident: $type:ty $(= $new:expr)?, $name:literal $($unit:ident)?, $help:literal;
            )*
        }
        $(with { $($(#[$own_doc:meta])* $own_vis:vis $own:ident: $own_type:ty,)* })?
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone)]
        pub struct $group {
            $(#[doc = $help] $(#[$doc])* $vis $field: $type,)*
            $($($(#[$own_doc])* $own_vis $own: $own_type,)*)?
        }

        impl Default for $group {
            fn default() -> Self {
                Self {
                    $($field: $crate::group::metrics!(@new $($new)?),)*
                    $($($own: Default::default(),)*)?
                }
            }
        }

        impl $group {
            fn register_all(&self, registry: &mut prometheus_client::registry::Registry) {
                $($crate::group::metrics!(@register registry, self.$field, $name, $help $(, $unit)?);)*
            }
        }
    };
    (@new) => { Default::default() };
    (@new $new:expr) => { $new };
    (@register $registry:ident, $metric:expr, $name:literal, $help:literal) => {
        $registry.register($name, $help, $metric.clone())
    };
    (@register $registry:ident, $metric:expr, $name:literal, $help:literal, $unit:ident) => {{
        let unit = prometheus_client::registry::Unit::$unit;
        $registry.register_with_unit($name, $help, unit, $metric.clone())
    }};
}

pub(super) use metrics;
