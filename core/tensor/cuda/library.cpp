#include "core/tensor/cuda_library.hpp"

#include <dlfcn.h>

#include <utility>

#include "cohort/core/error.hpp"

namespace cohort::cuda {
namespace {

std::string loader_words() {
    const char* text = dlerror();
    return text == nullptr ? "no reason given" : text;
}

}  // namespace

Library::Library(std::string what, std::initializer_list<const char*> names)
    : what_(std::move(what)) {
    std::string reasons;
    for (const char* name : names) {
        handle_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        if (handle_ != nullptr) {
            return;
        }
        reasons += (reasons.empty() ? "" : "; ") + loader_words();
    }
    fail<DeviceError>({.where = what_,
                       .what = "cannot be loaded: " + reasons,
                       .hint = "install it where the loader looks (LD_LIBRARY_PATH)"});
}

void* Library::symbol(const char* name) const {
    void* found = dlsym(handle_, name);
    if (found == nullptr) {
        fail<DeviceError>({.where = what_,
                           .what = std::string("has no ") + name + ": " + loader_words(),
                           .hint = "a version that this program was built for"});
    }
    return found;
}

}  // namespace cohort::cuda
