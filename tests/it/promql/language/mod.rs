//! The language of PromQL: text to tree, tree to text, and the errors about text.

mod nesting;
mod random_tree;
mod recorded;
mod round_trip;
mod scripts;
