#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>

namespace cohort::cuda {

/// A shared library that is opened when it is first needed (cuDNN, cuBLASLt, NCCL): loading them
/// takes a tenth of a second and more, which commands without a GPU do not pay, and a machine
/// without them can run everything else. Never closed: the libraries do not survive it.
class Library {
public:
    /// @param what   for messages, "cuDNN 9"
    /// @param names  file names, the first that opens is taken
    /// Errors: DeviceError with the loader's words when none opens.
    Library(std::string what, std::initializer_list<const char*> names);

    /// Errors: DeviceError when the library has no such function.
    [[nodiscard]] void* symbol(const char* name) const;

    /// library.load(table.matmul, "cublasLtMatmul"), where `table.matmul` is declared as
    /// decltype(&cublasLtMatmul): the header's own signature.
    template <class Function>
    void load(Function*& function, const char* name) const {
        function = reinterpret_cast<Function*>(symbol(name));
    }

private:
    std::string what_;
    void* handle_ = nullptr;
};

/// Declares a member of a table that is the library's function `name`, with the header's own
/// signature. @param library  dnn_library or blas_library; asked when the table is made
#define COHORT_LIBRARY_FUNCTION(library, member, name)                          \
    decltype(&::name) member /* NOLINT(bugprone-macro-parentheses): a name */ = \
        reinterpret_cast<decltype(&::name)>(library().symbol(#name))

/// A library's descriptor and the function that destroys it.
template <class T, class Status>
using LibraryDescriptor = std::unique_ptr<std::remove_pointer_t<T>, Status (*)(T)>;

/// cuDNN and cuBLASLt, opened at first use; the program is not linked to them. Functions are loaded
/// into tables of pointers that are declared with the headers' signatures.
/// Errors: DeviceError when the library is missing.
[[nodiscard]] const Library& dnn_library();
[[nodiscard]] const Library& blas_library();

}  // namespace cohort::cuda
