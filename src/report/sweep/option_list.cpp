#include <algorithm>

#include "cohort/report/experiment.hpp"

namespace cohort {

void set_option(OptionList& options, const std::string& name, const std::string& value) {
    const auto found = std::find_if(options.begin(), options.end(),
                                    [&name](const auto& option) { return option.first == name; });
    if (found == options.end()) {
        options.emplace_back(name, value);
    } else {
        found->second = value;
    }
}

bool has_option(const OptionList& options, const std::string& name) {
    return std::any_of(options.begin(), options.end(),
                       [&name](const auto& option) { return option.first == name; });
}

std::string option_of(const OptionList& options, const std::string& name) {
    const auto found = std::find_if(options.begin(), options.end(),
                                    [&name](const auto& option) { return option.first == name; });
    return found == options.end() ? std::string() : found->second;
}

}  // namespace cohort
