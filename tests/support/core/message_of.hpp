#pragma once

#include <string>

namespace cohort::test {

/// The message of the E that `action` throws; empty when it throws nothing.
template <class E, class Action>
std::string message_of(Action&& action) {
    try {
        static_cast<void>(action());
    } catch (const E& error) {
        return error.what();
    }
    return {};
}

}  // namespace cohort::test
