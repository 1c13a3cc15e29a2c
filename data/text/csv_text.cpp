#include "data/text/csv_text.hpp"

#include <fmt/format.h>

#include "cohort/core/output.hpp"

namespace cohort {

std::string CsvPlace::text(std::string_view field) const {
    return fmt::format("{}, line {}{}{}", path, line, field.empty() ? "" : ", ", field);
}

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view kBlank = " \t\r";
    const std::size_t begin = text.find_first_not_of(kBlank);
    return begin == std::string_view::npos
               ? std::string_view()
               : text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
}

std::vector<std::string_view> fields_of(std::string_view line) {
    std::vector<std::string_view> fields;
    for (std::size_t comma = 0; comma != std::string_view::npos;) {
        comma = line.find(',');
        fields.push_back(trimmed(line.substr(0, comma)));
        line.remove_prefix(comma == std::string_view::npos ? line.size() : comma + 1);
    }
    return fields;
}

std::vector<std::string_view> fields_of(const CsvPlace& place, std::size_t columns,
                                        std::string_view line) {
    std::vector<std::string_view> fields = fields_of(line);
    require_file(fields.size() == columns, place.text(), "fields and columns differ in number",
                 std::to_string(columns), std::to_string(fields.size()));
    return fields;
}

void require_csv(bool good, const CsvPlace& place, std::string_view field,
                 std::string_view expected, std::string_view got) {
    if (!good) {
        require_file(false, place.text(field), "cannot be used", expected,
                     fmt::format("'{}'", got));
    }
}

}  // namespace cohort
