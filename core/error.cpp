#include "cohort/core/error.hpp"

#include <system_error>

#include "core/source_place.hpp"

namespace cohort {

std::string error_message(const ErrorText& text) {
    std::string message;
    if (!text.where.empty()) {
        message.append("[").append(text.where).append("] ");
    }
    message.append(text.what);
    if (!text.expected.empty()) {
        message.append("; expected ").append(text.expected);
    }
    if (!text.got.empty()) {
        message.append(text.expected.empty() ? "; got " : ", got ").append(text.got);
    }
    if (!text.hint.empty()) {
        message.append("; try ").append(text.hint);
    }
    return message;
}

std::string errno_text(int error) {
    return std::generic_category().message(error);
}

void broken_invariant(std::string_view what, const std::source_location& where) {
    throw std::logic_error("[" + source_place(where) + "] broken invariant: " + std::string(what));
}

}  // namespace cohort
