#include "train/run/earlier_part.hpp"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

using ParsedLine = nlohmann::json;

template <class T>
T value_of(const ParsedLine& line, const char* name, T otherwise) {
    const auto found = line.find(name);
    const bool fits = found != line.end() && (std::is_same_v<T, std::string> ? found->is_string()
                                              : std::is_integral_v<T> ? found->is_number_integer()
                                                                      : found->is_number());
    return fits ? found->get<T>() : otherwise;
}

void read_schedule(EarlierPart& part, const ParsedLine& line) {
    try {
        part.schedule = Schedule::parse(value_of<std::string>(line, "lr_schedule", "constant"));
        part.lr = value_of<double>(line, "lr", 0);
    } catch (const UsageError&) {  // of another version
        part.schedule.reset();
    }
}

}  // namespace

EarlierPart read_earlier_part(const std::string& metrics, std::int64_t checkpoint_bytes) {
    EarlierPart part;
    std::ifstream file(metrics);
    std::string text;
    for (std::int64_t at = 0; std::getline(file, text);) {
        const bool lost = at >= checkpoint_bytes;
        at += static_cast<std::int64_t>(text.size()) + 1;
        const bool begins =
            text.starts_with(R"({"event":"start")") || text.starts_with(R"({"event":"resume")");
        if (!lost && !begins) {
            continue;  // most lines by far
        }
        const ParsedLine line = ParsedLine::parse(text, nullptr, false);
        if (!line.is_object()) {
            continue;
        }
        if (begins) {
            read_schedule(part, line);
        }
        part.samples_applied =
            std::max(part.samples_applied, value_of<std::int64_t>(line, "samples_applied", 0));
    }
    return part;
}

}  // namespace cohort
