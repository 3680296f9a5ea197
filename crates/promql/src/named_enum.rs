//! Enums whose variants have a name in the language.

/// Declares an enum, and from the same table its values, their names, the search by name and `Display`.
macro_rules! named_enum {
    (
        $(#[$meta:meta])*
        $vis:vis enum $type:ident {
            $($(#[$variant_meta:meta])* $variant:ident = $name:literal,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        $vis enum $type {
            $($(#[$variant_meta])* $variant,)*
        }

        impl $type {
            /// All values, in the order of the table.
            $vis const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// Its name.
            $vis const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// The value with this name.
            $vis fn named(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.name() == name)
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

pub(crate) use named_enum;
