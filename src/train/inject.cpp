#include "cohort/train/inject.hpp"

#include <charconv>
#include <cmath>
#include <set>
#include <sstream>
#include <string_view>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& got) {
    fail<UsageError>({.where = "--inject",
                      .what = what,
                      .expected = "entries rank=R,cpu=F[,from=Ts][,to=Ts] with 0 < F <= 1, "
                                  "separated by ';'",
                      .got = got,
                      .hint = "--inject 'rank=3,cpu=0.3,from=10s,to=40s'"});
}

template <class Number>
Number parse_number(std::string_view text, const std::string& entry) {
    Number value{};
    const char* last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, value);
    if (error != std::errc() || end != last) {
        refuse("'" + std::string(text) + "' is no usable number", entry);
    }
    return value;
}

/// "10s" -> 10.
double parse_seconds(std::string_view text, const std::string& entry) {
    if (!text.ends_with('s')) {
        refuse("a time needs its unit, s", entry);
    }
    const auto seconds = parse_number<double>(text.substr(0, text.size() - 1), entry);
    if (!std::isfinite(seconds) || seconds < 0) {
        refuse("a time must be >= 0", entry);
    }
    return seconds;
}

void set_field(Injection& injection, std::string_view name, std::string_view value,
               const std::string& entry) {
    if (name == "rank") {
        injection.rank = parse_number<int>(value, entry);
    } else if (name == "cpu") {
        injection.cpu = parse_number<double>(value, entry);
    } else if (name == "from") {
        injection.from_s = parse_seconds(value, entry);
    } else if (name == "to") {
        injection.to_s = parse_seconds(value, entry);
    } else {
        refuse("'" + std::string(name) + "' is unknown", entry);
    }
}

Injection parse_entry(const std::string& entry) {
    Injection injection;
    std::set<std::string> seen;
    std::istringstream fields(entry);
    for (std::string field; std::getline(fields, field, ',');) {
        const std::size_t equals = field.find('=');
        if (equals == std::string::npos) {
            refuse("'" + field + "' is not NAME=VALUE", entry);
        }
        const std::string name = field.substr(0, equals);
        set_field(injection, name, std::string_view(field).substr(equals + 1), entry);
        if (!seen.insert(name).second) {
            refuse("names " + name + " twice", entry);
        }
    }
    if (!seen.contains("rank") || !seen.contains("cpu")) {
        refuse("an entry needs rank and cpu", entry);
    }
    if (injection.rank < 0 || !(injection.cpu > 0 && injection.cpu <= 1)) {
        refuse("rank or cpu is out of range", entry);
    }
    if (injection.to_s && *injection.to_s <= injection.from_s) {
        refuse("it ends before it begins", entry);
    }
    return injection;
}

}  // namespace

std::vector<Injection> parse_injections(const std::string& text) {
    std::vector<Injection> injections;
    std::istringstream entries(text);
    for (std::string entry; std::getline(entries, entry, ';');) {
        injections.push_back(parse_entry(entry));
    }
    return injections;
}

}  // namespace cohort
