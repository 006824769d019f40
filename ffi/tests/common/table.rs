//! `calls.inc`: every function of the header, with its parameters, as a table that C programs go through.
//!
//! A function that is added to the header is in the tests that use the table without being named there. A type of
//! a parameter that is not known here is a failure.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::manifest;

/// The types whose handles are checked (rule 4).
const HANDLES: [&str; 6] =
    ["pi_repository", "pi_session", "pi_branch", "pi_mutation", "pi_cursor", "pi_context"];

/// Writes the table of the committed header into `folder`.
pub(crate) fn write_calls(folder: &Path) {
    let header = fs::read_to_string(manifest().join("../include/pisession.h")).unwrap();
    fs::write(folder.join("calls.inc"), calls(&Header::parse(&header))).unwrap();
}

/// What the header declares.
#[derive(Default)]
struct Header {
    /// Opaque types.
    types: Vec<String>,
    /// Structs with their fields.
    structures: Vec<(String, Vec<Named>)>,
    /// Functions: result, name, parameters.
    functions: Vec<(String, String, Vec<Named>)>,
}

/// A parameter or field.
struct Named {
    /// Its type, without `struct`; empty for a function pointer that is spelled out.
    type_name: String,
    name: String,
}

impl Header {
    fn parse(header: &str) -> Self {
        let mut parsed = Self::default();
        for declaration in declarations(header) {
            if let Some(rest) = declaration.strip_prefix("typedef struct ") {
                match rest.split_once('{') {
                    None => parsed.types.push(rest.split(' ').next().unwrap().to_owned()),
                    Some((name, rest)) => {
                        let fields = rest.split_once('}').unwrap().0.split(';').map(str::trim);
                        let fields = fields.filter(|field| !field.is_empty()).map(named).collect();
                        parsed.structures.push((name.trim().to_owned(), fields));
                    }
                }
            } else if !declaration.starts_with("typedef ") {
                let (head, parameters) = declaration.split_once('(').unwrap();
                let Named { type_name, name } = named(head);
                let parameters = split(parameters.strip_suffix(')').unwrap());
                let parameters = parameters.iter().filter(|parameter| *parameter != "void");
                parsed.functions.push((type_name, name, parameters.map(|text| named(text)).collect()));
            }
        }
        parsed
    }
}

/// The declarations, each on one line, without comments and directives.
fn declarations(header: &str) -> Vec<String> {
    let mut text = String::new();
    let mut rest = header;
    while let Some((before, comment)) = rest.split_once("/*") {
        text.push_str(before);
        rest = comment.split_once("*/").unwrap().1;
    }
    text.push_str(rest);
    let lines =
        text.lines().filter(|line| !line.starts_with('#') && *line != "extern \"C\" {" && *line != "}");
    let mut found = vec![String::new()];
    let mut depth = 0;
    for letter in lines.collect::<Vec<_>>().join(" ").chars() {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        if letter == ';' && depth == 0 {
            found.push(String::new());
        } else {
            found.last_mut().unwrap().push(letter);
        }
    }
    let words = |text: &String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    found.iter().map(words).filter(|declaration| !declaration.is_empty()).collect()
}

/// Splits at commas that are in no parentheses.
fn split(parameters: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut depth = 0;
    for letter in parameters.chars() {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        if letter == ',' && depth == 0 {
            found.push(String::new());
        } else {
            found.last_mut().unwrap().push(letter);
        }
    }
    found.iter().map(|parameter| parameter.trim().to_owned()).collect()
}

fn named(text: &str) -> Named {
    if let Some((_, rest)) = text.split_once("(*") {
        return Named { type_name: String::new(), name: rest.split_once(')').unwrap().0.to_owned() };
    }
    let start = text.rfind([' ', '*']).unwrap() + 1;
    let type_name = text[..start].trim().replace("struct ", "");
    Named { type_name, name: text[start..].to_owned() }
}

/// `pi_session` for `const pi_session *` and `pi_session **`.
fn base(type_name: &str) -> &str {
    type_name.trim_start_matches("const ").trim_end_matches(['*', ' '])
}

impl Header {
    fn is_type(&self, name: &str) -> bool {
        self.types.iter().any(|known| known == name)
    }

    fn is_structure(&self, name: &str) -> bool {
        self.structures.iter().any(|(known, _)| known == name)
    }

    /// Kind of a parameter or field, and what kind of type or structure it is about, as C names them.
    fn kind(&self, named: &Named, before: Option<&Named>) -> (&'static str, String) {
        let Named { type_name, name } = named;
        let about = base(type_name);
        let is_of_text = |text: &Named| {
            ["const char *", "const char *const *"].contains(&&*text.type_name)
                && [format!("{}_len", text.name), format!("{}_lens", text.name.trim_end_matches('s'))]
                    .contains(name)
        };
        let kind = match &**type_name {
            "" => "FUNCTION",
            "const char *" => "TEXT",
            "const char *const *" => "TEXTS",
            "const size_t *" => "LENGTHS",
            "const pi_cell *" => "CELLS",
            "size_t" if before.is_some_and(is_of_text) => "LENGTH",
            "size_t" if name == "count" => "COUNT",
            "size_t" if name == "size" => "SIZE",
            "size_t" | "int64_t" | "uint64_t" => "NUMBER",
            "double" => "REAL",
            "uint64_t *" => "OUT_NUMBER",
            "const uint64_t *" | "const int64_t *" => "NUMBER_OR_NULL",
            "void *" => "USER_DATA",
            "pi_error **" => "FAILURE",
            _ if about.ends_with("_function") => "FUNCTION",
            _ if self.is_type(about) => {
                let kind = match (type_name.ends_with("**"), HANDLES.contains(&about)) {
                    (true, _) => "OUT",
                    (false, true) => "HANDLE",
                    (false, false) => "OBJECT",
                };
                return (kind, format!("TYPE_{about}"));
            }
            _ if self.is_structure(about) => {
                let kind = if type_name.starts_with("const ") || name == "options" || self.has_size(about) {
                    "OPTIONS"
                } else {
                    "VIEW"
                };
                return (kind, format!("STRUCTURE_{about}"));
            }
            other => panic!("'{other}' is no type that a parameter '{name}' may have"),
        };
        (kind, "0".to_owned())
    }

    fn has_size(&self, structure: &str) -> bool {
        let found = self.structures.iter().find(|(name, _)| name == structure);
        found.is_some_and(|(_, fields)| fields.first().is_some_and(|field| field.name == "struct_size"))
    }

    fn kinds<'a>(&self, all: &'a [Named]) -> Vec<(&'a Named, &'static str, String)> {
        let before = std::iter::once(None).chain(all.iter().map(Some));
        let kind = |(named, before)| {
            let (kind, about) = self.kind(named, before);
            (named, kind, about)
        };
        all.iter().zip(before).map(kind).collect()
    }
}

fn calls(header: &Header) -> String {
    let mut out = String::from("/* Made from pisession.h; not to be edited. */\n\n");
    let names = header.types.iter().map(|name| format!("TYPE_{name}"));
    let _ = writeln!(out, "enum {{ {}, TYPES }};", names.collect::<Vec<_>>().join(", "));
    let options: Vec<_> = header.structures.iter().filter(|(name, _)| header.has_size(name)).collect();
    let names = header.structures.iter().map(|(name, _)| format!("STRUCTURE_{name}"));
    let _ = writeln!(out, "enum {{ {} }};\n", names.collect::<Vec<_>>().join(", "));

    for (name, fields) in &options {
        let fields = header.kinds(fields);
        let field = |(field, kind, about): &(&Named, &str, String)| {
            format!("    {{\"{0}\", offsetof({name}, {0}), {kind}, {about}}},\n", field.name)
        };
        let fields: String = fields.iter().skip(1).map(field).collect();
        let _ = writeln!(out, "static const struct field FIELDS_{name}[] = {{\n{fields}}};");
    }
    let _ = writeln!(out, "static const struct structure STRUCTURES[] = {{");
    for (name, fields) in &header.structures {
        let fields = match header.has_size(name) {
            true => format!("FIELDS_{name}, {}", fields.len() - 1),
            false => "NULL, 0".to_owned(),
        };
        let _ = writeln!(out, "    {{\"{name}\", sizeof({name}), {fields}}},");
    }
    out.push_str("};\n\n");

    let declared: BTreeSet<&str> = header.functions.iter().map(|(_, name, _)| &**name).collect();
    for name in &header.types {
        assert!(declared.contains(&*format!("{name}_free")), "{name} cannot be freed");
        let body = match HANDLES.contains(&&**name) {
            true => format!("return {name}_free(pointer);"),
            false => format!("{name}_free(pointer); return PI_OK;"),
        };
        let _ = writeln!(out, "static int32_t free_{name}(void *pointer) {{ {body} }}");
    }
    let _ = writeln!(out, "static const struct type TYPE[] = {{");
    for name in &header.types {
        let is_handle = i32::from(HANDLES.contains(&&**name));
        let _ = writeln!(out, "    {{\"{name}\", {is_handle}, free_{name}}},");
    }
    out.push_str("};\n\n");

    for (result, name, parameters) in &header.functions {
        let kinds = header.kinds(parameters);
        let pass = |(at, (named, kind, _)): (usize, &(&Named, &str, String))| match *kind {
            "FUNCTION" if named.type_name.is_empty() => {
                format!("a[{at}].number ? given_{name}_{} : NULL", named.name)
            }
            "FUNCTION" => format!("a[{at}].number ? given_{} : NULL", named.type_name),
            "LENGTH" | "COUNT" | "SIZE" => format!("(size_t)a[{at}].number"),
            "NUMBER" => format!("({})a[{at}].number", named.type_name),
            _ => format!("a[{at}].pointer"),
        };
        let passed: Vec<String> = kinds.iter().enumerate().map(pass).collect();
        let call = format!("{name}({})", passed.join(", "));
        let body = match &**result {
            "void" => format!("{call}; return 0;"),
            result if result.ends_with('*') => format!("return (int64_t)(intptr_t){call};"),
            _ => format!("return (int64_t){call};"),
        };
        let _ = writeln!(out, "static int64_t call_{name}(const union argument *a) {{ (void)a; {body} }}");
        let parameter = |(named, kind, about): &(&Named, &str, String)| {
            format!("{{{kind}, {about}, \"{}\"}}, ", named.name)
        };
        let parameters: String = kinds.iter().map(parameter).collect();
        // No array is empty in C.
        let _ = writeln!(out, "static const struct parameter OF_{name}[] = {{{parameters}{{0, 0, NULL}}}};");
    }
    let _ = writeln!(out, "static const struct function FUNCTIONS[] = {{");
    for (result, name, parameters) in &header.functions {
        let result = match &**result {
            "int32_t" => "CODE",
            result if result.ends_with('*') => "BORROWED",
            _ => "OTHER",
        };
        let _ = writeln!(out, "    {{\"{name}\", {result}, call_{name}, OF_{name}, {}}},", parameters.len());
    }
    out.push_str("};\n");
    out
}
