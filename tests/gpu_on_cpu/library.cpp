// Stands in for libraries that are opened at need.
#include "library.hpp"

#include "cohort/core/error.hpp"
#include "cohort/tensor/cuda_library.hpp"

namespace cohort::cuda {
namespace {

/// Anything that is not played here: every status but success.
int not_supported() {
    return 3000;
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
    const auto found = functions().find(name);
    return found != functions().end() ? found->second : reinterpret_cast<void*>(&not_supported);
}

}  // namespace cohort::cuda
