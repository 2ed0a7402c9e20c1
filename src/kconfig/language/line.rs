//! The words of one line behind its keyword: symbols, texts and expressions.

use super::error::Problem;
use super::expr::{Expr, ExprId, Relation, SymbolId};
use super::lex::{Token, unexpected};
use super::tree::Tree;

/// Parentheses may be nested this deep.
const DEEPEST: usize = 100;

/// An expression may have this many operators.
const LONGEST: usize = 1000;

/// The tokens of a line behind its keyword.
pub(super) struct Line<'t> {
    tokens: &'t [Token],
    operators: usize,
    depth: usize,
}

impl<'t> Line<'t> {
    pub(super) fn new(tokens: &'t [Token]) -> Self {
        Self {
            tokens,
            operators: 0,
            depth: 0,
        }
    }

    pub(super) fn next(&mut self) -> Option<&'t Token> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(first)
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.tokens.is_empty()
    }

    pub(super) fn end(&self) -> Result<(), Problem> {
        match self.tokens.first() {
            None => Ok(()),
            token => Err(unexpected("the end of the line", token)),
        }
    }

    pub(super) fn word(&mut self, word: &'static str) -> Result<(), Problem> {
        match self.next() {
            Some(token) if token.keyword() == Some(word) => Ok(()),
            other => Err(unexpected(word, other)),
        }
    }

    pub(super) fn text(&mut self) -> Result<String, Problem> {
        match self.next() {
            Some(Token::Quoted(text)) => Ok(text.clone()),
            other => Err(unexpected("a text in quotes", other)),
        }
    }

    pub(super) fn only_text(mut self) -> Result<String, Problem> {
        let text = self.text()?;
        self.end()?;
        Ok(text)
    }

    pub(super) fn takes(&mut self, sign: &str) -> bool {
        let found = matches!(self.tokens.first(), Some(Token::Sign(found)) if *found == sign);
        if found {
            self.tokens = &self.tokens[1..];
        }
        found
    }

    pub(super) fn optional_if(&mut self, tree: &mut Tree) -> Result<ExprId, Problem> {
        if self.tokens.first().and_then(Token::keyword) == Some("if") {
            self.tokens = &self.tokens[1..];
            self.expression(tree)
        } else {
            Ok(ExprId::ALWAYS)
        }
    }

    pub(super) fn symbol(&mut self, tree: &mut Tree) -> Result<SymbolId, Problem> {
        match self.next() {
            Some(Token::Word { text, plain }) if !(*plain && text == "if") => Ok(tree.name(text)),
            Some(Token::Quoted(text)) => Ok(tree.constant(text)),
            other => Err(unexpected("a symbol", other)),
        }
    }

    pub(super) fn expression(&mut self, tree: &mut Tree) -> Result<ExprId, Problem> {
        let mut left = self.conjunction(tree)?;
        while self.takes("||") {
            self.count()?;
            let right = self.conjunction(tree)?;
            left = tree.exprs.or(left, right);
        }
        Ok(left)
    }

    fn count(&mut self) -> Result<(), Problem> {
        self.operators += 1;
        if self.operators > LONGEST {
            return Err(Problem::TooDeep);
        }
        Ok(())
    }

    fn conjunction(&mut self, tree: &mut Tree) -> Result<ExprId, Problem> {
        let mut left = self.negation(tree)?;
        while self.takes("&&") {
            self.count()?;
            let right = self.negation(tree)?;
            left = tree.exprs.and(left, right);
        }
        Ok(left)
    }

    fn negation(&mut self, tree: &mut Tree) -> Result<ExprId, Problem> {
        self.count()?;
        if self.takes("!") {
            self.depth += 1;
            if self.depth > DEEPEST {
                return Err(Problem::TooDeep);
            }
            let inner = self.negation(tree)?;
            self.depth -= 1;
            return Ok(tree.exprs.not(inner));
        }
        if self.takes("(") {
            self.depth += 1;
            if self.depth > DEEPEST {
                return Err(Problem::TooDeep);
            }
            let inner = self.expression(tree)?;
            self.depth -= 1;
            return if self.takes(")") {
                Ok(inner)
            } else {
                Err(unexpected("`)`", self.tokens.first()))
            };
        }
        self.comparison(tree)
    }

    fn comparison(&mut self, tree: &mut Tree) -> Result<ExprId, Problem> {
        let left = self.symbol(tree)?;
        let relation = match self.tokens.first() {
            Some(Token::Sign("=")) => Relation::Equal,
            Some(Token::Sign("!=")) => Relation::Unequal,
            Some(Token::Sign("<")) => Relation::Less,
            Some(Token::Sign("<=")) => Relation::AtMost,
            Some(Token::Sign(">")) => Relation::Greater,
            Some(Token::Sign(">=")) => Relation::AtLeast,
            _ => return Ok(tree.exprs.symbol(left)),
        };
        self.tokens = &self.tokens[1..];
        let right = self.symbol(tree)?;
        Ok(tree.exprs.add(Expr::Compare(relation, left, right)))
    }
}
