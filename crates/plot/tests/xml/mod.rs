//! Parser for the part of XML that charts use.

/// Element: its name, its attributes as written, and the text directly after its start tag.
#[derive(Clone, Debug)]
pub(crate) struct Element {
    pub(crate) name: String,
    pub(crate) text: String,
    attributes: Vec<(String, String)>,
}

impl Element {
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|attribute| attribute.0 == name).map(|attribute| attribute.1.as_str())
    }

    #[track_caller]
    pub(crate) fn number(&self, name: &str) -> f64 {
        let value = self.attribute(name).and_then(|value| value.parse().ok());
        value.unwrap_or_else(|| panic!("{name} of {self:?} is no number"))
    }
}

/// Returns all elements in the order of their start tags.
#[track_caller]
pub(crate) fn elements(xml: &str) -> Vec<Element> {
    parse(xml).unwrap_or_else(|problem| panic!("{problem}"))
}

#[track_caller]
pub(crate) fn assert_well_formed(xml: &str) {
    elements(xml);
}

fn parse(xml: &str) -> Result<Vec<Element>, String> {
    let (mut elements, mut open): (Vec<Element>, Vec<String>) = (Vec::new(), Vec::new());
    let mut rest = xml.strip_prefix('<').ok_or("no element at the start")?;
    loop {
        let (tag, after) = rest.split_once('>').ok_or_else(|| format!("an open tag: {rest:.60}"))?;
        let (text, next) = after.split_once('<').map_or((after, None), |(text, next)| (text, Some(next)));
        check_text(text)?;
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop().as_deref() != Some(name) {
                return Err(format!("{name} ends, and is not what began last"));
            }
        } else {
            let element = start(tag.trim_end_matches('/'), text)?;
            if !tag.ends_with('/') {
                open.push(element.name.clone());
            }
            elements.push(element);
        }
        match next {
            Some(next) => rest = next,
            None if open.is_empty() && text.is_empty() => return Ok(elements),
            None => return Err(format!("{open:?} never end")),
        }
    }
}

fn start(tag: &str, text: &str) -> Result<Element, String> {
    let (name, mut rest) = tag.split_once(' ').unwrap_or((tag, ""));
    let mut attributes: Vec<(String, String)> = Vec::new();
    while !rest.is_empty() {
        let (name, quoted) =
            rest.split_once("=\"").ok_or_else(|| format!("an attribute without value: {rest}"))?;
        let (value, next) = quoted.split_once('"').ok_or_else(|| format!("a value without end: {rest}"))?;
        check_text(value)?;
        if attributes.iter().any(|attribute| attribute.0 == name) {
            return Err(format!("{name} twice"));
        }
        attributes.push((name.into(), value.into()));
        rest = next.trim_start();
    }
    let is_name = !name.is_empty() && name.chars().all(|character| character.is_ascii_alphanumeric());
    is_name
        .then(|| Element { name: name.into(), text: text.into(), attributes })
        .ok_or(format!("no name: {name}"))
}

fn check_text(text: &str) -> Result<(), String> {
    let references = text.split('&').skip(1);
    let known = ["amp;", "lt;", "gt;", "quot;", "#39;"];
    match references.into_iter().find(|reference| !known.iter().any(|known| reference.starts_with(known))) {
        Some(reference) => Err(format!("no reference: &{reference}")),
        None => Ok(()),
    }
}
