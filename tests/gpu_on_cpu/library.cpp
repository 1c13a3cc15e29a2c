// Stands in for libraries that are opened at need.
#include "library.hpp"

#include "cohort/core/error.hpp"
#include "core/tensor/cuda_library.hpp"
#include "machine.hpp"

namespace cohort::cuda {
namespace {

/// Anything that is not played here: every status but success.
int not_supported() {
    return 3000;
}

void check_there(const std::string& where, const std::string& name) {
    if (on_cpu::played_machine().missing.contains(name)) {
        fail<DeviceError>({.where = where, .what = name + " is missing"});
    }
}

const on_cpu::Functions& functions() {
    static const on_cpu::Functions made = [] {
        on_cpu::Functions all;
        on_cpu::add_dnn(all);
        on_cpu::add_blas(all);
        on_cpu::add_rnn(all);
        return all;
    }();
    return made;
}

}  // namespace

Library::Library(std::string what, std::initializer_list<const char*> /*names*/)
    : what_(std::move(what)) {
}

void* Library::symbol(const char* name) const {
    check_there(what_, what_);
    check_there(what_, name);
    const auto found = functions().find(name);
    return found != functions().end() ? found->second : reinterpret_cast<void*>(&not_supported);
}

}  // namespace cohort::cuda
