import { type CallHandler, type ExecutionContext, Injectable, type NestInterceptor } from '@nestjs/common';
import { catchError, type Observable, throwError } from 'rxjs';
import { isMqttMessageContext } from './mqtt-message.context.js';

/**
 * Records what a handler threw before an exception filter makes something else of it, so that a failure policy sees the
 * original error (`masked: false`). `@MqttEvent()` and `@MqttRequest()` have it; add it with `@UseInterceptors(FailureCapture)`
 * where plain decorators are used.
 */
@Injectable()
export class FailureCapture implements NestInterceptor {
  intercept(execution: ExecutionContext, next: CallHandler): Observable<unknown> {
    const context: unknown = execution.switchToRpc().getContext();
    if (!isMqttMessageContext(context)) return next.handle();
    return next.handle().pipe(
      catchError((error: unknown) => {
        context.recordFailure(error);
        return throwError(() => error);
      }),
    );
  }
}
