#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace cohort::test {

/// The insides of all tags of a page, in order.
inline std::vector<std::string> tags_of(const std::string& page) {
    std::vector<std::string> tags;
    for (std::size_t begin = page.find('<'); begin != std::string::npos;
         begin = page.find('<', begin + 1)) {
        tags.push_back(page.substr(begin + 1, page.find('>', begin) - begin - 1));
    }
    return tags;
}

/// The first tag that is not closed, or closes another one; empty for a page that is well formed.
inline std::string unbalanced(const std::string& page) {
    std::vector<std::string> open;
    for (const std::string& tag : tags_of(page)) {
        const bool closing = tag.starts_with("/");
        const std::string name = tag.substr(closing ? 1 : 0, tag.find_first_of(" /\n", 1));
        if (closing && (open.empty() || open.back() != name)) {
            return tag;
        }
        if (closing) {
            open.pop_back();
        } else if (!tag.ends_with("/") && !tag.starts_with("!")) {
            open.push_back(name);
        }
    }
    return open.empty() ? "" : open.back();
}

inline std::vector<std::string> ids_of(const std::string& page) {
    std::vector<std::string> ids;
    for (const std::string& tag : tags_of(page)) {
        if (const std::size_t found = tag.find(" id=\""); found != std::string::npos) {
            ids.push_back(tag.substr(found + 5, tag.find('"', found + 5) - found - 5));
        }
    }
    std::sort(ids.begin(), ids.end());
    return ids;
}

}  // namespace cohort::test
