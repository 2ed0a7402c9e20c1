//! Statements into entries.

use std::collections::HashMap;

use super::dialect::Dialect;
use super::error::{ParseError, Place, Problem};
use super::expr::ExprId;
use super::host::Host;
use super::lex::{Source, Statement, Token, unexpected};
use super::line::Line;
use super::macros::{Macros, Scene, Trouble};
use super::tree::{Choice, ChoiceId, Kind, Node, NodeId, Tree};
use super::warning::ParseWarning;

/// Files and blocks may be nested this deep.
const DEEPEST: usize = 64;

/// What all files may hold together, in bytes, each counted as often as it is included: files that
/// include each other twice double the work at each level.
const LARGEST: usize = 1 << 27;

/// What a file counts beside its text, in bytes.
const FILE_COST: usize = 1 << 13;

impl Tree {
    /// Reads the Kconfig file `path` and all that it includes.
    pub fn parse(host: &dyn Host, path: &str) -> Result<Self, ParseError> {
        let dialect = Dialect::of(host).map_err(|source| ParseError::Host {
            file: path.to_owned(),
            line: 1,
            source,
        })?;
        let mut parser = Parser {
            host,
            dialect,
            included: HashMap::new(),
            tree: Self::new(),
            macros: Macros::default(),
            open: vec![NodeId::ROOT],
            entry: None,
            including: Vec::new(),
            statements: 0,
            taken: 0,
            menuconfig: None,
            after_help: false,
            warnings: Vec::new(),
        };
        let place = Place { file: 0, line: 1 };
        parser.tree.nodes.push(Node {
            kind: Kind::Menu,
            is_menuconfig: false,
            place,
            parent: NodeId::ROOT,
            own: ExprId::ALWAYS,
            dependency: ExprId::ALWAYS,
            visible_if: ExprId::ALWAYS,
            prompt: None,
            help: None,
        });
        parser.file(path, None)?;
        let Parser {
            mut tree,
            macros,
            warnings,
            ..
        } = parser;
        tree.said = macros.said;
        tree.probes = macros.probes;
        tree.variables = macros.from_outside;
        tree.warnings = warnings;
        let finished = tree.refused(dialect).and_then(|()| tree.finish());
        if let Err((place, problem)) = finished.and_then(|()| tree.check(dialect)) {
            return Err(tree.error(place, problem));
        }
        if let Some((cycle, problem)) = tree.cycle() {
            let place = cycle.first().and_then(|id| tree.symbol(*id).nodes.first());
            let place = tree.node(place.copied().unwrap_or(NodeId::ROOT)).place;
            return Err(tree.error(place, problem));
        }
        Ok(tree)
    }
}

impl Tree {
    /// What strict readers refuse and others warn of.
    fn refused(&self, dialect: Dialect) -> Result<(), (Place, Problem)> {
        let first = self.warnings.iter().find_map(|warning| match warning {
            ParseWarning::Behind(place, text) if dialect.is_strict => Some((*place, text)),
            _ => None,
        });
        match first {
            Some((place, text)) => Err((place, Problem::Refused(text.clone()))),
            None => Ok(()),
        }
    }

    fn error(&self, place: Place, problem: Problem) -> ParseError {
        ParseError::Text {
            file: self.file(place).to_owned(),
            line: place.line,
            problem,
        }
    }
}

/// The state of reading.
pub(super) struct Parser<'h> {
    host: &'h dyn Host,
    pub(super) dialect: Dialect,
    /// Where each file was first included.
    included: HashMap<String, Place>,
    pub(super) tree: Tree,
    macros: Macros,
    /// The blocks that are open, the main menu first.
    open: Vec<NodeId>,
    /// The entry that attributes belong to.
    pub(super) entry: Option<NodeId>,
    /// The files being read.
    including: Vec<String>,
    /// How many statements have been read.
    statements: usize,
    /// What the files have held so far.
    taken: usize,
    /// The `menuconfig` that attributes belong to.
    menuconfig: Option<NodeId>,
    /// Whether the statement before was a help text.
    after_help: bool,
    pub(super) warnings: Vec<ParseWarning>,
}

impl Parser<'_> {
    fn error(&self, place: Place, trouble: Trouble) -> ParseError {
        let file = self.tree.file(place).to_owned();
        let line = place.line;
        match trouble {
            Trouble::Text(problem) => ParseError::Text {
                file,
                line,
                problem,
            },
            Trouble::Host(source) => ParseError::Host { file, line, source },
        }
    }

    /// Reads a file; `from` is where the `source` line stands.
    fn file(&mut self, path: &str, from: Option<Place>) -> Result<(), ParseError> {
        let file = u32::try_from(self.tree.files.len()).expect("fewer files than bytes");
        let start = Place { file, line: 1 };
        let from = from.unwrap_or_else(|| {
            self.tree.files.push(path.to_owned());
            start
        });
        if self.including.iter().any(|name| name == path) {
            let problem = Problem::RecursiveInclude(path.to_owned());
            return Err(self.error(from, problem.into()));
        }
        if self.dialect.includes_once
            && let Some(first) = self.included.insert(path.to_owned(), from)
        {
            let first = self.tree.shown(first);
            let problem = Problem::RepeatedInclude(path.to_owned(), first);
            return Err(self.error(from, problem.into()));
        }
        if self.including.len() >= DEEPEST {
            return Err(self.error(from, Problem::TooDeep.into()));
        }
        let text = match self.host.read(path) {
            Ok(Some(text)) => text,
            Ok(None) => {
                let problem = Problem::NoFile(path.to_owned());
                return Err(self.error(from, problem.into()));
            }
            Err(error) => return Err(self.error(from, Trouble::Host(error))),
        };
        self.taken = self
            .taken
            .saturating_add(text.len())
            .saturating_add(FILE_COST);
        if self.taken > LARGEST {
            return Err(self.error(from, Problem::TooManyFiles.into()));
        }
        if from != start {
            self.tree.files.push(path.to_owned());
        }
        self.including.push(path.to_owned());
        let mut source = Source::new(path.to_owned(), file, text);
        self.statements(&mut source)?;
        self.including.pop();
        Ok(())
    }

    fn statements(&mut self, source: &mut Source) -> Result<(), ParseError> {
        let outer = self.open.len();
        let mut statement = Statement::default();
        loop {
            let host = self.host;
            let more = source.statement(host, &mut self.macros, &mut self.warnings, &mut statement);
            for (place, said) in self
                .macros
                .said
                .extract_if(.., |(_, said)| said.is_warning())
            {
                self.warnings
                    .push(ParseWarning::Tree(place, said.into_text()));
            }
            match more {
                Ok(true) => {}
                Ok(false) => break,
                Err(trouble) => return Err(self.error(source.place(), trouble)),
            }
            let place = Place {
                file: source.file,
                line: statement.line,
            };
            if !statement.is_attribute() {
                self.end_menuconfig(place);
            }
            self.statements += 1;
            let after_help = std::mem::take(&mut self.after_help);
            if after_help && statement.assignment.is_some() {
                self.assignment_after_help(source, &mut statement, place)
                    .map_err(|trouble| self.error(place, trouble))?;
            }
            if let Some(Token::Word { text, plain: true }) = statement.tokens.first()
                && text == "source"
                && statement.assignment.is_none()
            {
                let path = Line::new(&statement.tokens[1..]).only_text();
                let path = path.map_err(|problem| self.error(place, problem.into()))?;
                self.entry = None;
                self.file(&path, Some(place))?;
                continue;
            }
            self.statement(source, &statement, place, outer)
                .map_err(|trouble| self.error(place, trouble))?;
        }
        self.end_menuconfig(source.place());
        if self.open.len() > outer {
            let node = self.open.last().copied().unwrap_or(NodeId::ROOT);
            let (what, place) = (self.block(node), self.tree.node(node).place);
            return Err(self.error(place, Problem::NotClosed(what).into()));
        }
        self.entry = None;
        Ok(())
    }

    /// Looks back at a `menuconfig` once the next statement, at `place`, is no part of it.
    fn end_menuconfig(&mut self, place: Place) {
        if let Some(node) = self.menuconfig.take()
            && self.tree.node(node).prompt.is_none()
        {
            let text = "menuconfig statement without prompt".to_owned();
            self.warnings.push(ParseWarning::Behind(place, text));
        }
    }

    pub(super) fn block(&self, node: NodeId) -> &'static str {
        match self.tree.node(node).kind {
            Kind::Menu if node == NodeId::ROOT => "nothing",
            Kind::Menu => "`menu`",
            Kind::Choice(_) => "`choice`",
            Kind::If => "`if`",
            Kind::Comment => "`comment`",
            Kind::Config(_) => "`config`",
        }
    }

    fn statement(
        &mut self,
        source: &mut Source,
        statement: &Statement,
        place: Place,
        outer: usize,
    ) -> Result<(), Trouble> {
        let (first, rest) = statement
            .tokens
            .split_first()
            .expect("a statement has a token");
        if let Some((how, text)) = &statement.assignment {
            let Token::Word { text: name, .. } = first else {
                return Err(unexpected("a statement", Some(first)).into());
            };
            let scene = Scene {
                host: self.host,
                file: &source.name,
                place,
            };
            self.entry = None;
            return self.macros.assign(scene, name, *how, text);
        }
        let Some(word) = first.keyword() else {
            return Err(unexpected("a statement", Some(first)).into());
        };
        let mut line = Line::new(rest);
        match word {
            "config" => self.config(&mut line, place)?,
            "menuconfig" => {
                self.outside_choice("menuconfig")?;
                self.config(&mut line, place)?;
                self.menuconfig = self.entry;
                if let Some(node) = self.entry {
                    self.tree.nodes[node.index()].is_menuconfig = true;
                }
            }
            "menu" => self.menu(&mut line, place)?,
            "choice" => self.choice(place)?,
            "comment" => self.comment(&mut line, place)?,
            "if" => self.condition(&mut line, place)?,
            "endif" => self.end("endif", outer)?,
            "endmenu" => self.end("endmenu", outer)?,
            "endchoice" => self.end("endchoice", outer)?,
            "mainmenu" => self.main_menu(&mut line, place)?,
            "help" => {
                let node = self.attribute("help", |kind| {
                    matches!(kind, Kind::Config(_) | Kind::Choice(_))
                })?;
                let text = source.help();
                self.help(node, text, source.place());
                // The words behind `help` are no part of the line.
                return Ok(());
            }
            word => self.attributes(word, &mut line, place)?,
        }
        line.end().map_err(Trouble::Text)
    }

    /// Right behind a help text the kernel's reader expands an assignment's text at once, and takes
    /// it only where nothing is left.
    fn assignment_after_help(
        &mut self,
        source: &Source,
        statement: &mut Statement,
        place: Place,
    ) -> Result<(), Trouble> {
        if let (Some((_, text)), Some(Token::Word { text: name, .. })) =
            (&mut statement.assignment, statement.tokens.first())
        {
            let scene = Scene {
                host: self.host,
                file: &source.name,
                place,
            };
            *text = self.macros.expand(scene, text)?;
            if !text.trim_start_matches([' ', '\t']).is_empty() {
                return Err(Problem::UnknownStatement(name.clone()).into());
            }
        }
        Ok(())
    }

    /// Takes the help text of an entry; `behind` is where the next statement stands.
    fn help(&mut self, node: NodeId, text: String, behind: Place) {
        let name = match self.tree.node(node).kind {
            Kind::Config(symbol) => &self.tree.symbol(symbol).name,
            _ => "<choice>",
        };
        let blank = format!("'{name}' defined with blank help text");
        let twice = format!(
            "'{name}' defined with more than one help text -- only the last one will be used"
        );
        let is_blank = text.is_empty();
        let earlier = self.tree.nodes[node.index()].help.replace(text);
        let found = earlier.map(|_| twice).into_iter();
        let found = found.chain(is_blank.then_some(blank));
        self.warnings
            .extend(found.map(|text| ParseWarning::Behind(behind, text)));
        self.after_help = true;
    }

    /// Adds an entry to the innermost open block.
    fn add(&mut self, kind: Kind, place: Place) -> NodeId {
        let id = NodeId(u32::try_from(self.tree.nodes.len()).expect("fewer entries than bytes"));
        self.tree.nodes.push(Node {
            kind,
            is_menuconfig: false,
            place,
            parent: self.open.last().copied().unwrap_or(NodeId::ROOT),
            own: ExprId::ALWAYS,
            dependency: ExprId::ALWAYS,
            visible_if: ExprId::ALWAYS,
            prompt: None,
            help: None,
        });
        self.entry = Some(id);
        id
    }

    fn enter(&mut self, node: NodeId) -> Result<(), Problem> {
        if self.open.len() >= DEEPEST {
            return Err(Problem::TooDeep);
        }
        self.open.push(node);
        Ok(())
    }

    fn config(&mut self, line: &mut Line<'_>, place: Place) -> Result<(), Problem> {
        let symbol = match line.next() {
            Some(Token::Word { text, .. }) => self.tree.name(text),
            other => return Err(unexpected("a symbol", other)),
        };
        let node = self.add(Kind::Config(symbol), place);
        self.tree.symbols[symbol.index()].nodes.push(node);
        Ok(())
    }

    fn menu(&mut self, line: &mut Line<'_>, place: Place) -> Result<(), Problem> {
        self.outside_choice("menu")?;
        let text = line.text()?;
        let node = self.add(Kind::Menu, place);
        self.prompt(node, &text, ExprId::ALWAYS, place);
        self.enter(node)
    }

    fn comment(&mut self, line: &mut Line<'_>, place: Place) -> Result<(), Problem> {
        let text = line.text()?;
        let node = self.add(Kind::Comment, place);
        self.prompt(node, &text, ExprId::ALWAYS, place);
        Ok(())
    }

    /// A choice holds entries, not blocks that have a name.
    fn outside_choice(&self, word: &'static str) -> Result<(), Problem> {
        let is_choice = |id: &NodeId| matches!(self.tree.node(*id).kind, Kind::Choice(_));
        if self.open.iter().any(is_choice) {
            return Err(Problem::Syntax {
                expected: "an entry of the choice",
                found: format!("`{word}`"),
            });
        }
        Ok(())
    }

    fn choice(&mut self, place: Place) -> Result<(), Problem> {
        self.outside_choice("choice")?;
        let index = u32::try_from(self.tree.choices.len()).expect("fewer choices than bytes");
        let node = self.add(Kind::Choice(ChoiceId(index)), place);
        self.tree.choices.push(Choice {
            node,
            members: Vec::new(),
            defaults: Vec::new(),
        });
        self.enter(node)
    }

    fn condition(&mut self, line: &mut Line<'_>, place: Place) -> Result<(), Problem> {
        let condition = line.expression(&mut self.tree)?;
        let node = self.add(Kind::If, place);
        self.tree.nodes[node.index()].own = condition;
        self.entry = None;
        self.enter(node)
    }

    fn end(&mut self, found: &'static str, outer: usize) -> Result<(), Problem> {
        let node = self.open.last().copied().unwrap_or(NodeId::ROOT);
        let fits = match self.tree.node(node).kind {
            Kind::Menu => found == "endmenu",
            Kind::Choice(_) => found == "endchoice",
            Kind::If => found == "endif",
            Kind::Config(_) | Kind::Comment => false,
        };
        if self.open.len() <= outer || !fits {
            let open = if self.open.len() <= outer {
                "nothing that this file opened"
            } else {
                self.block(node)
            };
            return Err(Problem::WrongEnd { found, open });
        }
        self.open.pop();
        self.entry = None;
        if matches!(self.tree.node(node).kind, Kind::Choice(_))
            && self.tree.node(node).prompt.is_none()
        {
            return Err(Problem::ChoiceWithoutPrompt);
        }
        Ok(())
    }

    fn main_menu(&mut self, line: &mut Line<'_>, place: Place) -> Result<(), Problem> {
        if self.statements > 1 {
            return Err(Problem::LateMainMenu);
        }
        self.entry = None;
        self.tree.title = self.trimmed(line.text()?, place);
        Ok(())
    }
}
