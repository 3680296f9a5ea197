//! A group of metrics: each is declared once, with its field, its name, its unit and its help.

/// Names and values of labels. A metric with no labels at all may be absent.
pub(super) type Labels<const N: usize> = [(&'static str, &'static str); N];

/// Declares an enum of label values: each variant with its value.
macro_rules! label_values {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$doc:meta])* $variant:ident = $value:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis enum $name {
            $($(#[$doc])* $variant,)*
        }

        impl $name {
            const VALUES: &[&str] = &[$($value,)*];

            const fn value(self) -> &'static str {
                Self::VALUES[self as usize]
            }
        }
    };
}

pub(super) use label_values;

/// Declares a group: the struct, its default, and `registered`, which registers the metrics in the order of the
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
            fn registered(self, registry: &mut prometheus_client::registry::Registry) -> Self {
                $($crate::group::metrics!(@register registry, self.$field, $name, $help $(, $unit)?);)*
                self
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
