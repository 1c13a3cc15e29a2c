#pragma once

namespace cohort {

/// Base of classes that are used through a reference to the base: not copied, and destroyed through
/// a pointer to it.
class Interface {
public:
    Interface() = default;
    Interface(const Interface&) = delete;
    Interface& operator=(const Interface&) = delete;
    virtual ~Interface() = default;
};

}  // namespace cohort
