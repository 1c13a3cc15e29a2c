#include "core/markup.hpp"

namespace cohort {

std::string escaped(std::string_view text) {
    std::string result;
    for (const char c : text) {
        switch (c) {
            case '&': result += "&amp;"; break;
            case '<': result += "&lt;"; break;
            case '>': result += "&gt;"; break;
            case '"': result += "&quot;"; break;
            default:
                // XML has no control characters.
                result += (c >= 0 && c < ' ' && c != '\n' && c != '\t') ? '?' : c;
        }
    }
    return result;
}

}  // namespace cohort
