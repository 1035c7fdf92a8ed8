import { type CallHandler, type ExecutionContext, Injectable, type NestInterceptor } from '@nestjs/common';
import { catchError, type Observable, throwError } from 'rxjs';

/**
 * Records what a handler threw before an exception filter makes something else of it, so that a failure policy sees the
 * original error (`masked: false`). For plain `@EventPattern()` and `@MessagePattern()`, as `@UseInterceptors(FailureCapture)` or
 * global interceptor; errors of guards come before it. `@MqttEvent()` and `@MqttRequest()` need none.
 */
@Injectable()
export class FailureCapture implements NestInterceptor {
  intercept(execution: ExecutionContext, next: CallHandler): Observable<unknown> {
    const context: unknown = execution.switchToRpc().getContext();
    if (!recordsFailures(context)) return next.handle();
    return next.handle().pipe(
      catchError((error: unknown) => {
        context.recordFailure(error);
        return throwError(() => error);
      }),
    );
  }
}

/** A context of a message or of a batch, also of another copy of this package. */
function recordsFailures(context: unknown): context is { recordFailure(error: unknown): void } {
  return typeof (context as { recordFailure?: unknown } | undefined)?.recordFailure === 'function';
}
