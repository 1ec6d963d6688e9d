// What the services with JSON answers (SQS, EBS direct) have in common in their errors. Pure.
#pragma once

#include <string>

namespace warmroot::aws {

/// "com.amazonaws.sqs#QueueDoesNotExist:http://..." to "QueueDoesNotExist": the type of an error,
/// as x-amzn-errortype or `__type` say it, without namespace and link.
std::string bare_error_type(std::string type);

/// The type says that keys, signature or permission were not accepted.
bool is_denial(const std::string& type);

}  // namespace warmroot::aws
