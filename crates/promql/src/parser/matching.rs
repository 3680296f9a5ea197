//! Modifiers between an operator and its right side: `bool`, `on`, `group_left`, `fill`.
//!
//! Each occurs at most once, in this order. Whether both sides are vectors is checked later.

use super::super::ast::{Cardinality, Comparison, MatchLabels, Matching};
use super::super::token::{Keyword, Kind};
use super::{Parsed, Parser};

impl Matching {
    pub(crate) fn has_fill(&self) -> bool {
        self.fill_left.is_some() || self.fill_right.is_some()
    }
}

impl Parser<'_> {
    /// The modifiers of an operator.
    pub(super) fn matching(&mut self) -> Parsed<(Matching, Comparison)> {
        let bool = self.keyword(Keyword::Bool)?;
        let comparison = if bool { Comparison::Bool } else { Comparison::Filter };
        let mut matching = Matching {
            cardinality: Cardinality::OneToOne,
            labels: MatchLabels::Ignoring(Vec::new()),
            include: Vec::new(),
            fill_left: None,
            fill_right: None,
            names: self.syntax.names,
        };
        let on = self.keyword(Keyword::On)?;
        if on || self.keyword(Keyword::Ignoring)? {
            let labels = self.labels()?;
            matching.labels = match on {
                true => MatchLabels::On(labels),
                false => MatchLabels::Ignoring(labels),
            };
            self.group_side(&mut matching)?;
        }
        self.fill(&mut matching)?;
        Ok((matching, comparison))
    }

    fn group_side(&mut self, matching: &mut Matching) -> Parsed<()> {
        if self.keyword(Keyword::GroupLeft)? {
            matching.cardinality = Cardinality::ManyToOne;
        } else if self.keyword(Keyword::GroupRight)? {
            matching.cardinality = Cardinality::OneToMany;
        } else {
            return Ok(());
        }
        // A parenthesis here opens the labels, even if the right side could begin with one.
        let next = self.peek()?.kind;
        if next == Kind::LeftParen || !next.can_begin_expr() {
            matching.include = self.labels()?;
        }
        Ok(())
    }

    fn fill(&mut self, matching: &mut Matching) -> Parsed<()> {
        if self.keyword(Keyword::Fill)? {
            let value = self.fill_value()?;
            (matching.fill_left, matching.fill_right) = (Some(value), Some(value));
            return Ok(());
        }
        // Each side once, in either order.
        for _ in 0..2 {
            if matching.fill_left.is_none() && self.keyword(Keyword::FillLeft)? {
                matching.fill_left = Some(self.fill_value()?);
            } else if matching.fill_right.is_none() && self.keyword(Keyword::FillRight)? {
                matching.fill_right = Some(self.fill_value()?);
            }
        }
        Ok(())
    }

    fn fill_value(&mut self) -> Parsed<f64> {
        self.expect(Kind::LeftParen)?;
        let sign = self.sign()?;
        let number = self.number()?;
        self.expect(Kind::RightParen)?;
        Ok(sign.map_or(number, |(sign, span)| number.signed(sign, span.to(number.span))).value)
    }
}
