#include "data/text/toml_reader.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cohort/core/error.hpp"
#include "data/file/text_file.hpp"

namespace cohort {
namespace {

/// Names the source of what the command line put in place of the file's; the key follows.
const std::string kOverride = "--set ";

[[noreturn]] void fail_by(TomlReader::Kind kind, const ErrorText& text) {
    if (kind == TomlReader::Kind::kData) {
        fail<FileError>(text);
    }
    fail<UsageError>(text);
}

}  // namespace

bool one_of(std::string_view key, std::initializer_list<std::string_view> keys) {
    return std::ranges::find(keys, key) != keys.end();
}

std::optional<std::string> text_of(const toml::node& node) {
    if (const auto* text = node.as_string()) {
        return text->get();
    }
    if (const auto* whole = node.as_integer()) {
        return fmt::format("{}", whole->get());
    }
    if (const auto* number = node.as_floating_point()) {
        return fmt::format("{}", number->get());
    }
    if (const auto* truth = node.as_boolean()) {
        return truth->get() ? "true" : "false";
    }
    return std::nullopt;
}

void put_override(toml::table& file, const std::string& text,
                  std::span<const std::string_view> tables) {
    const std::size_t equals = text.find('=');
    const std::size_t dot = text.find('.');
    const std::string name = text.substr(0, dot);
    if (equals == std::string::npos || dot >= equals ||
        std::ranges::find(tables, name) == tables.end()) {
        fail<UsageError>(
            {.where = "--set",
             .what = "not a key of the file",
             .expected = fmt::format("TABLE.KEY=VALUE, TABLE one of {}", fmt::join(tables, ", ")),
             .got = text});
    }
    const std::string value = text.substr(equals + 1);
    const std::string source = kOverride + text.substr(0, equals);
    toml::table parsed;
    try {
        parsed = toml::parse("value = " + value, source);
    } catch (const toml::parse_error&) {  // a text without quotes
        parsed = toml::parse("value = ''", source);
        *parsed["value"].as_string() = value;
    }
    toml::table* table = file.insert(name, toml::table()).first->second.as_table();
    if (table != nullptr) {
        const std::string key = text.substr(dot + 1, equals - dot - 1);
        parsed.get("value")->visit(
            [&](auto& node) { table->insert_or_assign(key, std::move(node)); });
    }
}

toml::table TomlReader::parse() const {
    return parse(read_text_file(path_));
}

toml::table TomlReader::parse(std::string_view text) const {
    try {
        return toml::parse(text, path_);
    } catch (const toml::parse_error& error) {
        const std::string line = fmt::format("{}, line {}", path_, error.source().begin.line);
        fail_by(kind_,
                {.where = line,
                 .what = kind_ == Kind::kData ? "not a TOML file" : "the line cannot be understood",
                 .expected = "TOML: name = value, texts in quotes",
                 .got = error.description()});
    }
}

std::string TomlReader::where(const toml::node& node, std::string_view key) const {
    const toml::source_region& source = node.source();
    if (source.path && source.path->starts_with(kOverride)) {
        return *source.path;
    }
    return fmt::format("{}, line {}{}{}", source.path ? *source.path : path_,
                       std::max<unsigned>(1, source.begin.line), key.empty() ? "" : ", ", key);
}

void TomlReader::refuse(const toml::node& node, std::string_view key, std::string_view what,
                        std::string_view expected, std::string_view got) const {
    const std::string place = where(node, key);
    fail_by(kind_, {.where = place, .what = what, .expected = expected, .got = got});
}

const toml::table& TomlReader::table(const toml::node& node, std::string_view key) const {
    const toml::table* found = node.as_table();
    if (found == nullptr) {
        refuse(node, key, "not a table", fmt::format("[{}] and lines below it", key), "a value");
    }
    return *found;
}

std::vector<const toml::table*> TomlReader::tables(const toml::table& file,
                                                   std::string_view key) const {
    std::vector<const toml::table*> found;
    const toml::node* node = file.get(key);
    if (node == nullptr) {
        return found;
    }
    const toml::array* list = node->as_array();
    if (list == nullptr || !list->is_array_of_tables()) {
        refuse(*node, key, "not a list of tables", fmt::format("[[{}]]", key), "something else");
    }
    for (const toml::node& entry : *list) {
        found.push_back(entry.as_table());
    }
    return found;
}

std::string TomlReader::string(const toml::node& node, std::string_view key) const {
    const auto* text = node.as_string();
    if (text == nullptr || text->get().empty() || text->get().find('\n') != std::string::npos) {
        refuse(node, key, "not a line of text", "one line in quotes",
               text_of(node).value_or("another kind of value"));
    }
    return text->get();
}

bool TomlReader::truth(const toml::node& node, std::string_view key) const {
    const auto* value = node.as_boolean();
    if (value == nullptr) {
        refuse(node, key, "not a truth value", "true or false",
               text_of(node).value_or("another kind of value"));
    }
    return value->get();
}

}  // namespace cohort
